// Products of integers: mul and mad, low, high and wide.
#include "integers.h"

namespace ptx {
namespace {

template <class T>
struct Twice;
template <>
struct Twice<int16_t> {
  using type = int32_t;
};
template <>
struct Twice<uint16_t> {
  using type = uint32_t;
};
template <>
struct Twice<int32_t> {
  using type = int64_t;
};
template <>
struct Twice<uint32_t> {
  using type = uint64_t;
};
template <>
struct Twice<int64_t> {
  using type = __int128;
};
template <>
struct Twice<uint64_t> {
  using type = unsigned __int128;
};

struct MulLo {
  template <class T>
  static T Do(T a, T b) {
    return static_cast<T>(uint64_t(a) * uint64_t(b));
  }
};
struct MulHi {
  template <class T>
  static T Do(T a, T b) {
    using U = typename Twice<T>::type;
    return static_cast<T>(U(a) * U(b) >> 8 * sizeof(T));
  }
};
struct MadLo {
  template <class T>
  static T Do(T a, T b, T c) {
    return Add::Do(MulLo::Do(a, b), c);
  }
};
struct MadHi {
  template <class T>
  static T Do(T a, T b, T c) {
    return Add::Do(MulHi::Do(a, b), c);
  }
};
struct MulWide {
  template <class T>
  static auto Do(T a, T b) {
    using U = typename Twice<T>::type;
    return static_cast<U>(U(a) * U(b));
  }
};
struct MadWide {
  template <class T, class U>
  static U Do(T a, T b, U c) {
    return Add::Do(static_cast<U>(U(a) * U(b)), c);
  }
};

template <class F>
Run Three(Type type) {
  switch (type) {
    case Type::kU16: return Map3<F, uint16_t>;
    case Type::kS16: return Map3<F, int16_t>;
    case Type::kU32: return Map3<F, uint32_t>;
    case Type::kS32: return Map3<F, int32_t>;
    case Type::kU64: return Map3<F, uint64_t>;
    case Type::kS64: return Map3<F, int64_t>;
    default: return nullptr;
  }
}

Type Doubled(Type type) {
  switch (type) {
    case Type::kU16: return Type::kU32;
    case Type::kS16: return Type::kS32;
    case Type::kU32: return Type::kU64;
    default: return Type::kS64;
  }
}

Run WideRun(Type type, bool sum) {
  switch (type) {
    case Type::kU16:
      return sum ? Map3<MadWide, uint16_t, uint32_t> : Map2<MulWide, uint16_t, uint32_t>;
    case Type::kS16: return sum ? Map3<MadWide, int16_t, int32_t> : Map2<MulWide, int16_t, int32_t>;
    case Type::kU32:
      return sum ? Map3<MadWide, uint32_t, uint64_t> : Map2<MulWide, uint32_t, uint64_t>;
    case Type::kS32: return sum ? Map3<MadWide, int32_t, int64_t> : Map2<MulWide, int32_t, int64_t>;
    default: return nullptr;
  }
}

}  // namespace

void Multiply(Decoder& d, bool sum) {
  const bool low = d.Has("lo"), high = !low && d.Has("hi");
  if (!low && !high && d.Has("wide")) {
    const Type type = d.TakeType();
    d.inst.run = WideRun(type, sum);
    d.End();
    d.Operands(sum ? 4 : 3);
    if (d.inst.run == nullptr) d.Unknown();
    d.Push(d.Target(d.operand(0), Doubled(type)));
    d.Push(d.Source(1, type));
    d.Push(d.Source(2, type));
    if (sum) d.Push(d.Source(3, Doubled(type)));
    return;
  }
  if (!low && !high) d.Unknown();
  const Type type = d.TakeType();
  if (sum) return Uniform(d, type, 3, low ? Three<MadLo>(type) : Three<MadHi>(type), kAlu);
  Uniform(d, type, 2, low ? Two<MulLo>(type) : Two<MulHi>(type), kAlu);
}

namespace {

// c plus the products of a's two halves of 16 bits and two bytes of b, the lower or the upper pair.
template <class A, class B>
void DotTwo(Warp& w, const Inst& i, Mask mask) {
  uint32_t* d = w.At<uint32_t>(i.args[0]);
  const uint32_t *a = w.At<uint32_t>(i.args[1]), *b = w.At<uint32_t>(i.args[2]);
  const uint32_t* c = w.At<uint32_t>(i.args[3]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    uint32_t sum = c[l];
    for (int k = 0; k < 2; ++k) {
      const int64_t left = static_cast<A>(a[l] >> 16 * k);
      const int64_t right = static_cast<B>(b[l] >> (i.detail + 8 * k));
      sum += static_cast<uint32_t>(left * right);
    }
    d[l] = sum;
  }
}

void DecodeDotTwo(Decoder& d) {
  d.inst.detail = d.Has("lo") ? 0 : 16;
  if (d.inst.detail == 16 && !d.Has("hi")) d.Unknown();
  const Type left = d.TakeType(), right = d.TakeType();
  const auto known = [](Type type) { return type == Type::kU32 || type == Type::kS32; };
  if (!known(left) || !known(right)) d.Unknown();
  const bool minus = left == Type::kS32, below = right == Type::kS32;
  const Run run = minus ? (below ? DotTwo<int16_t, int8_t> : DotTwo<int16_t, uint8_t>)
                        : (below ? DotTwo<uint16_t, int8_t> : DotTwo<uint16_t, uint8_t>);
  Uniform(d, Type::kU32, 3, run, kAlu);
}

}  // namespace

void AddProducts(Table* table) {
  (*table)["dp2a"] = DecodeDotTwo;
  (*table)["mul"] = [](Decoder& d) { Multiply(d, false); };
  (*table)["mad"] = [](Decoder& d) { Multiply(d, true); };
}

}  // namespace ptx
