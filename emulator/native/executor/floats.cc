// Floats: add, sub, mul, fma, div, min, max, neg, abs, copysign.
#include "floats.h"

#include <algorithm>

namespace ptx {
namespace {

struct Add {
  static double Do(double a, double b, double) { return AddToOdd(a, b); }
};
struct Sub {
  static double Do(double a, double b, double) { return AddToOdd(a, -b); }
};
struct Mul {
  static double Do(double a, double b, double) { return a * b; }
};
struct Fma {
  static double Do(double a, double b, double c) { return AddToOdd(a * b, c); }
};
struct Div {
  static double Do(double a, double b, double) { return a / b; }
};
struct Min {
  static double Do(double a, double b, double) {
    return a == b ? (std::signbit(a) ? a : b) : std::fmin(a, b);
  }
};
struct Max {
  static double Do(double a, double b, double) {
    return a == b ? (std::signbit(a) ? b : a) : std::fmax(a, b);
  }
};
struct MinNan {
  static double Do(double a, double b, double) {
    return std::isnan(a + b) ? a + b : Min::Do(a, b, 0);
  }
};
struct MaxNan {
  static double Do(double a, double b, double) {
    return std::isnan(a + b) ? a + b : Max::Do(a, b, 0);
  }
};
// The common case, rounded to nearest by the CPU itself.
struct FastAdd {
  template <class T>
  static T Do(T a, T b) {
    return a + b;
  }
};
struct FastSub {
  template <class T>
  static T Do(T a, T b) {
    return a - b;
  }
};
struct FastMul {
  template <class T>
  static T Do(T a, T b) {
    return a * b;
  }
};
struct FastDiv {
  template <class T>
  static T Do(T a, T b) {
    return a / b;
  }
};

PTX_MULTIVERSION void FastFma(float* d, const float* a, const float* b, const float* c) {
#pragma GCC ivdep
  for (int l = 0; l < kLanes; ++l) d[l] = __builtin_fmaf(a[l], b[l], c[l]);
}

void Fma32(Warp& w, const Inst& i, Mask mask) {
  float* d = w.At<float>(i.args[0]);
  float found[kLanes];
  FastFma(found, w.At<float>(i.args[1]), w.At<float>(i.args[2]), w.At<float>(i.args[3]));
  w.block->launch->counters.multiply_adds += __builtin_popcount(mask);
  if (mask == kAll) std::memcpy(d, found, sizeof found);
  else
    for (int l = 0; l < kLanes; ++l)
      if (mask >> l & 1) d[l] = found[l];
}

struct Fma64 {
  static double Do(double a, double b, double c) { return std::fma(a, b, c); }
};
struct Min64 {
  static double Do(double a, double b) { return Min::Do(a, b, 0); }
};
struct Max64 {
  static double Do(double a, double b) { return Max::Do(a, b, 0); }
};

Pipe PipeOf(Type type) { return type == Type::kF32 ? kFma : type == Type::kF64 ? kSpecial : kHalf; }

// `fast`: for fp32 and fp64 rounded to nearest without modifiers.
template <class F, int kSources>
void Arithmetic(Decoder& d, Run fast32, Run fast64) {
  const Modes modes = Modes::Take(d);
  const Type type = d.TakeType();
  d.inst.detail = modes.Packed();
  Run run = AnyMode<F, kSources>(type);
  if (d.inst.detail == 0 && type == Type::kF32 && fast32 != nullptr) run = fast32;
  if (type == Type::kF64) run = d.inst.detail == 0 ? fast64 : nullptr;
  const bool half = type != Type::kF32 && type != Type::kF64;
  if (half && modes.rounding != Rounding::kNearest) d.Unknown();
  Uniform(d, type, kSources, run, PipeOf(type));
}

// Forms with "approx" and "full" may be less accurate on a GPU than they are here.
void Divide(Decoder& d) {
  if (!d.Has("approx")) d.Has("full");
  Arithmetic<Div, 2>(d, Map2<FastDiv, float>, Map2<FastDiv, double>);
}

template <class F, class FNan>
void Least(Decoder& d, Run fast64) {
  if (d.Has("NaN")) return Arithmetic<FNan, 2>(d, nullptr, nullptr);
  Arithmetic<F, 2>(d, nullptr, fast64);
}

template <class T, T kFlip, T kKeep>
void Signs(Warp& w, const Inst& i, Mask mask) {
  T* d = w.At<T>(i.args[0]);
  const T* a = w.At<T>(i.args[1]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = (a[l] ^ kFlip) & kKeep;
}

template <bool kNegate>
void Sign(Decoder& d) {
  if (d.Has("ftz")) d.Unknown();
  const Type type = d.TakeType();
  constexpr uint64_t kTop = uint64_t{1} << 63;
  Run run = nullptr;
  switch (type) {
    case Type::kF16:
    case Type::kBF16:
      run = Signs < uint16_t, kNegate ? 0x8000 : 0, kNegate ? 0xffff : 0x7fff > ;
      break;
    case Type::kF16x2:
    case Type::kBF16x2:
      run = Signs < uint32_t, kNegate ? 0x80008000u : 0, kNegate ? kAll : 0x7fff7fffu > ;
      break;
    case Type::kF32:
      run = Signs < uint32_t, kNegate ? 0x80000000u : 0, kNegate ? kAll : 0x7fffffffu > ;
      break;
    default: run = Signs < uint64_t, kNegate ? kTop : 0, kNegate ? ~uint64_t{0} : ~kTop > ;
  }
  Uniform(d, type, 1, run, PipeOf(type));
}

// The sign of a on the size of b.
struct CopySign {
  template <class T>
  static T Do(T a, T b) {
    constexpr T kSign = T(1) << (8 * sizeof(T) - 1);
    return (a & kSign) | (b & ~kSign);
  }
};

}  // namespace

void AddFloats(Table* table) {
  Table& t = *table;
  const auto also = [&t](const char* name, Decode floats) {
    const Decode integers = t[name];
    t[name] = [integers, floats](Decoder& d) {
      if (d.OfFloats() || !integers) floats(d);
      else integers(d);
    };
  };
  also("add",
       [](Decoder& d) { Arithmetic<Add, 2>(d, Map2<FastAdd, float>, Map2<FastAdd, double>); });
  also("sub",
       [](Decoder& d) { Arithmetic<Sub, 2>(d, Map2<FastSub, float>, Map2<FastSub, double>); });
  also("mul",
       [](Decoder& d) { Arithmetic<Mul, 2>(d, Map2<FastMul, float>, Map2<FastMul, double>); });
  also("fma", [](Decoder& d) { Arithmetic<Fma, 3>(d, Fma32, Map3<Fma64, double>); });
  also("mad", [](Decoder& d) { Arithmetic<Fma, 3>(d, Fma32, Map3<Fma64, double>); });
  also("div", Divide);
  also("min", [](Decoder& d) { Least<Min, MinNan>(d, Map2<Min64, double>); });
  also("max", [](Decoder& d) { Least<Max, MaxNan>(d, Map2<Max64, double>); });
  also("neg", Sign<true>);
  also("abs", Sign<false>);
  t["copysign"] = [](Decoder& d) {
    const Type type = d.TakeType();
    const Run run = type == Type::kF32   ? Map2<CopySign, uint32_t>
                    : type == Type::kF64 ? Map2<CopySign, uint64_t>
                                         : nullptr;
    Uniform(d, type, 2, run, kAlu);
  };
}

}  // namespace ptx
