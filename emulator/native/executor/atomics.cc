// atom and red: lanes of a warp take turns, the lowest first.
#include "combine.h"
#include "lanes.h"
#include "memory.h"
#include "spins.h"

namespace ptx {
namespace {

template <class T>
struct Two {
  T low, high;
};

// What memory becomes of its old value and one or two operands.
template <class F>
struct With {
  template <class T>
  static T Do(T old, T b, T) {
    return F::Do(old, b);
  }
  template <class T>
  static Two<T> Do(Two<T> old, Two<T> b, Two<T>) {
    return {F::Do(old.low, b.low), F::Do(old.high, b.high)};
  }
};
struct Exchange {
  template <class T>
  static T Do(T, T b, T) {
    return b;
  }
};
struct Compare {
  template <class T>
  static T Do(T old, T b, T c) {
    return old == b ? c : old;
  }
};
struct Increase {
  static uint32_t Do(uint32_t old, uint32_t b, uint32_t) { return old >= b ? 0 : old + 1; }
};
struct Decrease {
  static uint32_t Do(uint32_t old, uint32_t b, uint32_t) {
    return old == 0 || old > b ? b : old - 1;
  }
};

// In global memory fp32 has no denormals, in shared memory it does.
template <class T>
T InGlobal(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::fabs(value) < 1.17549435e-38f ? std::copysign(0.0f, value) : value;
  } else {
    return value;
  }
}

// Arguments: address, d or nowhere, b, c or b again; detail: whether threads wait by it.
template <class F, class T>
void Change(Warp& w, const Inst& i, Mask mask) {
  Reached reached;
  Addresses(w, i, i.args[0], mask, reached.address);
  Reach(w, i, i.space, i.bytes, mask, Use::kChange, &reached);
  const T *b = w.At<T>(i.args[2]), *c = w.At<T>(i.args[3]);
  Seen seen;
  for (int l = 0; l < kLanes; ++l) {
    if (!(reached.lanes >> l & 1)) continue;
    T old, operand = b[l];
    std::memcpy(&old, reached.data[l], sizeof old);
    const bool global = reached.data[l] == reinterpret_cast<char*>(reached.address[l]);
    const bool flush = global && std::is_same_v<F, With<Sum>>;
    if (flush) operand = InGlobal(operand);
    const T made = F::Do(flush ? InGlobal(old) : old, operand, c[l]);
    const T kept = flush ? InGlobal(made) : made;
    std::memcpy(reached.data[l], &kept, sizeof kept);
    if (i.args[1] != kNowhere) w.At<T>(i.args[1])[l] = old;
    seen.Add(reached.data[l], old);
  }
  if (i.detail) Look(w, i, seen);
  else ++w.block->events;
}

template <class F>
Run OfIntegers(Type type) {
  switch (type) {
    case Type::kU32: return Change<F, uint32_t>;
    case Type::kS32: return Change<F, int32_t>;
    case Type::kU64: return Change<F, uint64_t>;
    case Type::kS64: return Change<F, int64_t>;
    default: return nullptr;
  }
}

template <class F>
Run OfBits(Type type, bool narrow = false) {
  switch (type) {
    case Type::kB16: return narrow ? Change<F, uint16_t> : nullptr;
    case Type::kB32: return Change<F, uint32_t>;
    case Type::kB64: return Change<F, uint64_t>;
    default: return nullptr;
  }
}

Run OfSum(Type type, bool denormals) {
  switch (denormals ? type : Type::kPred) {
    case Type::kF16: return Change<With<Sum>, Half>;
    case Type::kBF16: return Change<With<Sum>, Bfloat>;
    case Type::kF16x2: return Change<With<Sum>, Two<Half>>;
    case Type::kBF16x2: return Change<With<Sum>, Two<Bfloat>>;
    default: break;
  }
  switch (denormals ? Type::kPred : type) {
    case Type::kF32: return Change<With<Sum>, float>;
    case Type::kF64: return Change<With<Sum>, double>;
    case Type::kS64: return nullptr;
    default: return OfIntegers<With<Sum>>(type);
  }
}

Run TakeOperation(Decoder& d, bool returns) {
  const auto of_words = [](Type type, Run run) { return type == Type::kU32 ? run : nullptr; };
  const bool denormals = d.Has("noftz");
  if (d.Has("add")) return OfSum(d.TakeType(), denormals);
  if (denormals) return nullptr;
  if (d.Has("min")) return OfIntegers<With<Least>>(d.TakeType());
  if (d.Has("max")) return OfIntegers<With<Most>>(d.TakeType());
  if (d.Has("and")) return OfBits<With<BothBits>>(d.TakeType());
  if (d.Has("or")) return OfBits<With<EitherBit>>(d.TakeType());
  if (d.Has("xor")) return OfBits<With<OneBit>>(d.TakeType());
  if (d.Has("inc")) return of_words(d.TakeType(), Change<Increase, uint32_t>);
  if (d.Has("dec")) return of_words(d.TakeType(), Change<Decrease, uint32_t>);
  if (!returns) return nullptr;
  d.inst.detail = true;
  if (d.Has("exch")) return OfBits<Exchange>(d.TakeType());
  return d.Has("cas") ? OfBits<Compare>(d.TakeType(), true) : nullptr;
}

template <bool kReturns>
void DecodeChange(Decoder& d) {
  d.inst.space = TakeSpace(d);
  SkipOrder(d);
  const Type type = d.LastType();
  d.inst.run = TakeOperation(d, kReturns);
  if (d.inst.run == nullptr) d.Unknown();
  d.End();
  const size_t first = kReturns ? 1 : 0, sources = d.operands() - first - 1;
  const bool compares = d.inst.run == OfBits<Compare>(type, true);
  d.Operands(first + (compares ? 3 : 2));
  d.Address(d.operand(first));
  d.Push(kReturns ? d.Target(d.operand(0), type) : kNowhere);
  for (size_t i : {size_t{1}, sources}) d.Push(d.Source(first + i, type));
  d.inst.bytes = static_cast<uint8_t>(Bytes(type));
  d.inst.pipe = kMemory;
  int& granule = d.builder.kernel().granule;
  granule = std::min<int>(granule, d.inst.bytes);
}

}  // namespace

void AddAtomics(Table* table) {
  (*table)["atom"] = DecodeChange<true>;
  (*table)["red"] = DecodeChange<false>;
}

}  // namespace ptx
