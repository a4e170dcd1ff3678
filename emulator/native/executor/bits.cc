// More of integers: funnel shifts, the highest bit, masks, differences, products of bytes.
#include <algorithm>

#include "integers.h"

namespace ptx {
namespace {

// 32 bits of two words side by side; a holds the lower ones.
template <bool kLeft, bool kClamp>
struct Funnel {
  static uint32_t Do(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = uint64_t{b} << 32 | a;
    const uint32_t by = kClamp ? std::min(c, 32u) : c & 31;
    return static_cast<uint32_t>(kLeft ? both << by >> 32 : both >> by);
  }
};

void DecodeFunnel(Decoder& d) {
  const bool left = d.Has("l"), clamp = d.Has("clamp");
  if ((!left && !d.Has("r")) || (!clamp && !d.Has("wrap"))) d.Unknown();
  if (d.TakeType() != Type::kB32) d.Unknown();
  const Run run =
      left ? (clamp ? Map3<Funnel<true, true>, uint32_t> : Map3<Funnel<true, false>, uint32_t>)
           : (clamp ? Map3<Funnel<false, true>, uint32_t> : Map3<Funnel<false, false>, uint32_t>);
  Uniform(d, Type::kB32, 3, run, kAlu);
}

// The highest bit that differs from the sign; all ones if none does. Else how far it is to shift.
template <bool kShift>
struct Highest {
  template <class T>
  static uint32_t Do(T a) {
    using U = std::make_unsigned_t<T>;
    const U bits = a < 0 ? static_cast<U>(~a) : static_cast<U>(a);
    if (bits == 0) return ~0u;
    const uint32_t at = 63 - static_cast<uint32_t>(__builtin_clzll(bits));
    return kShift ? 8 * sizeof(T) - 1 - at : at;
  }
};

template <class F>
Run OneOf(Type type) {
  switch (type) {
    case Type::kU32: return Map1<F, uint32_t, uint32_t>;
    case Type::kS32: return Map1<F, int32_t, uint32_t>;
    case Type::kU64: return Map1<F, uint64_t, uint32_t>;
    case Type::kS64: return Map1<F, int64_t, uint32_t>;
    default: return nullptr;
  }
}

void DecodeHighest(Decoder& d) {
  const bool shift = d.Has("shiftamt");
  const Type type = d.TakeType();
  d.End();
  d.Operands(2);
  d.Push(d.Target(d.operand(0), Type::kU32));
  d.Push(d.Source(1, type));
  d.inst.run = shift ? OneOf<Highest<true>>(type) : OneOf<Highest<false>>(type);
  if (d.inst.run == nullptr) d.Unknown();
}

// b ones from position a on.
template <bool kClamp>
struct Ones {
  static uint32_t Do(uint32_t a, uint32_t b) {
    const uint64_t from = kClamp ? std::min(a, 32u) : a & 31;
    const uint64_t count = kClamp ? std::min(b, 32u) : b & 31;
    return static_cast<uint32_t>(((uint64_t{1} << count) - 1) << from);
  }
};

void DecodeOnes(Decoder& d) {
  const bool clamp = d.Has("clamp");
  if ((!clamp && !d.Has("wrap")) || d.TakeType() != Type::kB32) d.Unknown();
  Uniform(d, Type::kB32, 2, clamp ? Map2<Ones<true>, uint32_t> : Map2<Ones<false>, uint32_t>, kAlu);
}

struct Difference {
  template <class T>
  static T Do(T a, T b, T c) {
    const T apart = static_cast<T>(a < b ? Wrap<T>(b) - Wrap<T>(a) : Wrap<T>(a) - Wrap<T>(b));
    return Add::Do(c, apart);
  }
};

Run DifferenceOf(Type type) {
  switch (type) {
    case Type::kU16: return Map3<Difference, uint16_t>;
    case Type::kS16: return Map3<Difference, int16_t>;
    case Type::kU32: return Map3<Difference, uint32_t>;
    case Type::kS32: return Map3<Difference, int32_t>;
    case Type::kU64: return Map3<Difference, uint64_t>;
    case Type::kS64: return Map3<Difference, int64_t>;
    default: return nullptr;
  }
}

// Four bytes of a times four of b, and c.
template <class L, class R>
struct Dot {
  static uint32_t Do(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 32; i += 8)
      c += static_cast<uint32_t>(static_cast<L>(a >> i) * static_cast<R>(b >> i));
    return c;
  }
};

void DecodeDot(Decoder& d) {
  const Type left = d.TakeType(), right = d.TakeType();
  const auto is_word = [](Type type) { return type == Type::kU32 || type == Type::kS32; };
  if (!is_word(left) || !is_word(right)) d.Unknown();
  const bool from = left == Type::kS32, by = right == Type::kS32;
  const Run run =
      from ? (by ? Map3<Dot<int8_t, int8_t>, uint32_t> : Map3<Dot<int8_t, uint8_t>, uint32_t>)
           : (by ? Map3<Dot<uint8_t, int8_t>, uint32_t> : Map3<Dot<uint8_t, uint8_t>, uint32_t>);
  Uniform(d, Type::kB32, 3, run, kAlu);
}

// Arguments: p, a generic address. Whether it lies in a space.
void InSpace(Warp& w, const Inst& i, Mask mask) {
  const uint64_t* a = w.At<uint64_t>(i.args[1]);
  Mask found = 0;
  for (int l = 0; l < kLanes; ++l) {
    const Space space = a[l] >= kSharedWindow  ? Space::kShared
                        : a[l] >= kLocalWindow ? Space::kLocal
                                               : Space::kGlobal;
    found |= space == i.space ? Mask{1} << l : 0;
  }
  Mask* p = w.At<Mask>(i.args[0]);
  *p = (*p & ~mask) | (found & mask);
}

void DecodeInSpace(Decoder& d) {
  d.inst.space = d.Has("local") ? Space::kLocal : TakeSpace(d);
  d.End();
  d.Operands(2);
  if (d.inst.space == Space::kGeneric) d.Unknown();
  d.Push(d.PredicateTarget(d.operand(0).name));
  d.Push(d.Source(1, Type::kU64));
  d.inst.run = InSpace;
}

}  // namespace

void AddBits(Table* table) {
  Table& t = *table;
  t["shf"] = DecodeFunnel;
  t["bfind"] = DecodeHighest;
  t["bmsk"] = DecodeOnes;
  t["sad"] = [](Decoder& d) {
    const Type type = d.TakeType();
    Uniform(d, type, 3, DifferenceOf(type), kAlu);
  };
  t["dp4a"] = DecodeDot;
  t["isspacep"] = DecodeInSpace;
}

}  // namespace ptx
