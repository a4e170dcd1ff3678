// wmma: matrices of a warp in fragments whose layout the ISA leaves open.
//
// Here a lane holds elements that lie side by side in a row. Registers that are left over hold them
// once more.
#include <algorithm>

#include "lanes.h"
#include "memory.h"

namespace ptx {
namespace {

struct Shape {
  int m, n, k;
};

// Elements T of a matrix in the registers at `places`.
template <class T>
class Fragment {
 public:
  Fragment(const Warp& w, const Place* places, int registers, int elements)
      : warp_(w),
        places_(places),
        slots_(registers * kPacked),
        each_(elements / kLanes),
        slot_bytes_(std::max<int>(4, sizeof(T))) {}
  T Get(int element) const { return *At(element / each_, element % each_); }
  void Set(int element, T value) {
    for (int slot = element % each_; slot < slots_; slot += each_)
      *At(element / each_, slot) = value;
  }
  int each() const { return each_; }

 private:
  static constexpr int kPacked = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  T* At(int lane, int slot) const {
    char* lanes = warp_.At<char>(places_[slot / kPacked]) + lane * slot_bytes_;
    return reinterpret_cast<T*>(lanes) + slot % kPacked;
  }
  const Warp& warp_;
  const Place* places_;
  int slots_, each_, slot_bytes_;
};

// Arguments: address, elements between rows (or columns), registers.
// detail: rows, columns << 8, whether columns are side by side << 16.
template <class T, bool kStore>
void Move(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  const int rows = i.detail & 255, columns = i.detail >> 8 & 255;
  const uint32_t* stride = w.At<uint32_t>(i.args[1]);
  Fragment<T> fragment(w, i.args + 2, i.count, rows * columns);
  uint64_t base[kLanes];
  Addresses(w, i, i.args[0], mask, base);
  for (int k = 0; k < fragment.each(); ++k) {
    Reached reached;
    const auto element = [&](int lane) { return lane * fragment.each() + k; };
    for (int l = 0; l < kLanes; ++l) {
      const int row = element(l) / columns, column = element(l) % columns;
      const uint64_t at =
          i.detail >> 16 ? uint64_t{stride[l]} * column + row : uint64_t{stride[l]} * row + column;
      reached.address[l] = base[l] + at * sizeof(T);
    }
    Reach(w, i, i.space, sizeof(T), mask, kStore ? Use::kWrite : Use::kRead, &reached);
    for (int l = 0; l < kLanes; ++l) {
      T value{};
      if (kStore) value = fragment.Get(element(l));
      else if (reached.lanes >> l & 1) std::memcpy(&value, reached.data[l], sizeof value);
      if (!kStore) fragment.Set(element(l), value);
      else if (reached.lanes >> l & 1) std::memcpy(reached.data[l], &value, sizeof value);
    }
  }
}

Shape TakeShape(Decoder& d) {
  if (d.Has("m16n16k16")) return {16, 16, 16};
  if (d.Has("m32n8k16")) return {32, 8, 16};
  if (d.Has("m8n32k16")) return {8, 32, 16};
  if (d.Has("m16n16k8")) return {16, 16, 8};
  if (d.Has("m8n8k4")) return {8, 8, 4};
  d.Unknown();
}

Type TakeElement(Decoder& d) { return d.Has("tf32") ? Type::kF32 : d.TakeType(); }

template <bool kStore>
Run ByBytes(int bytes) {
  switch (bytes) {
    case 1: return Move<uint8_t, kStore>;
    case 2: return Move<uint16_t, kStore>;
    case 4: return Move<uint32_t, kStore>;
    default: return Move<uint64_t, kStore>;
  }
}

template <bool kStore>
void DecodeMove(Decoder& d) {
  const bool left = !kStore && d.Has("a"), right = !kStore && !left && d.Has("b");
  if (!left && !right && !d.Has(kStore ? "d" : "c")) d.Unknown();
  if (!d.Has("sync") || !d.Has("aligned")) d.Unknown();
  const bool turned = d.Has("col");
  if (!turned && !d.Has("row")) d.Unknown();
  const Shape shape = TakeShape(d);
  d.inst.space = TakeSpace(d);
  const Type type = TakeElement(d);
  d.End();
  const int rows = right ? shape.k : shape.m, columns = left ? shape.k : shape.n;
  const size_t address = kStore ? 0 : 1, registers = d.operand(1 - address).parts.size();
  d.Address(d.operand(address));
  if (d.operands() == 3) d.Push(d.Source(2, Type::kU32));
  else d.Push(d.builder.Constant(turned ? rows : columns, 4));
  d.Vector(1 - address, registers, Bytes(type) == 8 ? Type::kB64 : Type::kB32, !kStore);
  const int slots = static_cast<int>(registers) * kLanes * std::max(1, 4 / Bytes(type));
  if (registers == 0 || slots % (rows * columns) != 0) d.Unknown();
  d.inst.count = static_cast<uint8_t>(registers);
  d.inst.detail = rows | columns << 8 | turned << 16;
  d.inst.bytes = static_cast<uint8_t>(Bytes(type));
  d.inst.pipe = kMemory;
  d.inst.run = ByBytes<kStore>(d.inst.bytes);
  int& granule = d.builder.kernel().granule;
  granule = std::min<int>(granule, d.inst.bytes);
}

double Value(Half x) { return x.Value(); }
double Value(Bfloat x) { return x.Value(); }
double Value(double x) { return x; }
// tf32: what its registers hold besides is not looked at.
double Value(float x) { return BitCast<float>(BitCast<uint32_t>(x) & 0xffffe000u); }
int32_t Value(int8_t x) { return x; }
int32_t Value(uint8_t x) { return x; }

// A sum and the old value, rounded once.
void Add(double sum, double old, double* made) { *made = sum + old; }
void Add(double sum, float old, float* made) { *made = static_cast<float>(AddToOdd(sum, old)); }
void Add(double sum, Half old, float* made) {
  *made = static_cast<float>(AddToOdd(sum, old.Value()));
}
void Add(double sum, float old, Half* made) { *made = Half::Of(AddToOdd(sum, old)); }
void Add(double sum, Half old, Half* made) { *made = Half::Of(AddToOdd(sum, old.Value())); }
void Add(uint32_t sum, uint32_t old, uint32_t* made) { *made = sum + old; }

// Arguments: registers of d, c, a, b; offset: their numbers, a byte each; detail: m, n, k.
template <class T, class D, class C>
void Multiply(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  const Shape shape{i.detail & 255, i.detail >> 8 & 255, i.detail >> 16};
  const Place* places = i.args;
  const auto next = [&](int k) {
    const Place* found = places;
    places += i.offset >> 8 * k & 255;
    return std::make_pair(found, static_cast<int>(i.offset >> 8 * k & 255));
  };
  const auto [d_at, d_count] = next(0);
  const auto [c_at, c_count] = next(1);
  const auto [a_at, a_count] = next(2);
  const auto [b_at, b_count] = next(3);
  Fragment<D> d(w, d_at, d_count, shape.m * shape.n);
  const Fragment<C> c(w, c_at, c_count, shape.m * shape.n);
  const Fragment<T> a(w, a_at, a_count, shape.m * shape.k), b(w, b_at, b_count, shape.k * shape.n);
  std::vector<D> made(shape.m * shape.n);
  using Sums = std::conditional_t<std::is_same_v<D, uint32_t>, uint32_t, double>;
  for (int row = 0; row < shape.m; ++row) {
    for (int column = 0; column < shape.n; ++column) {
      Sums sum = 0;
      for (int k = 0; k < shape.k; ++k)
        sum += Value(a.Get(row * shape.k + k)) * Value(b.Get(k * shape.n + column));
      const int at = row * shape.n + column;
      Add(sum, c.Get(at), &made[at]);
    }
  }
  for (int at = 0; at < shape.m * shape.n; ++at) d.Set(at, made[at]);
  w.block->launch->counters.multiply_adds += uint64_t(shape.m) * shape.n * shape.k;
}

// Types are those of d and c alone for fp16, else of d, a, b and c.
Run TakeProduct(Decoder& d) {
  const Type to = d.TakeType();
  const bool tf32 = d.Has("tf32") && d.Has("tf32");
  const Type left = tf32 ? Type::kF32 : d.TakeType();
  if (to == Type::kF64) {
    const bool right = d.TakeType() == to && d.TakeType() == to && left == to;
    return right ? Multiply<double, double, double> : nullptr;
  }
  if (left == Type::kS8 || left == Type::kU8) {
    if (to != Type::kS32 || d.TakeType() != left || d.TakeType() != to) return nullptr;
    return left == Type::kS8 ? Multiply<int8_t, uint32_t, uint32_t>
                             : Multiply<uint8_t, uint32_t, uint32_t>;
  }
  if (tf32 || left == Type::kBF16) {
    if (to != Type::kF32 || (!tf32 && d.TakeType() != left) || d.TakeType() != to) return nullptr;
    return tf32 ? Multiply<float, float, float> : Multiply<Bfloat, float, float>;
  }
  const bool wide = to == Type::kF32, before = left == Type::kF32;
  if ((!wide && to != Type::kF16) || (!before && left != Type::kF16)) return nullptr;
  if (wide) return before ? Multiply<Half, float, float> : Multiply<Half, float, Half>;
  return before ? Multiply<Half, Half, float> : Multiply<Half, Half, Half>;
}

void DecodeMultiply(Decoder& d) {
  if (!d.Has("sync") || !d.Has("aligned")) d.Unknown();
  for (int side = 0; side < 2; ++side)
    if (!d.Has("row") && !d.Has("col")) d.Unknown();
  d.Has("rn");
  const Shape shape = TakeShape(d);
  const bool doubles = shape.k == 4;
  d.inst.run = TakeProduct(d);
  if (d.inst.run == nullptr) d.Unknown();
  d.End();
  d.Operands(4);
  int k = 0;
  for (size_t operand : {0, 3, 1, 2}) {
    const size_t registers = d.operand(operand).parts.size();
    d.Vector(operand, registers, doubles ? Type::kB64 : Type::kB32, operand == 0);
    d.inst.offset |= static_cast<int64_t>(registers) << 8 * k++;
  }
  d.inst.detail = shape.m | shape.n << 8 | shape.k << 16;
  d.inst.pipe = kTensor;
}

}  // namespace

void AddWmma(Table* table) {
  (*table)["wmma"] = [](Decoder& d) {
    if (d.Has("load")) return DecodeMove<false>(d);
    if (d.Has("store")) return DecodeMove<true>(d);
    if (!d.Has("mma")) d.Unknown();
    DecodeMultiply(d);
  };
}

}  // namespace ptx
