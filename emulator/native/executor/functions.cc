// Roots, reciprocals and the approximated functions of one float.
//
// fp64 has more than twice the digits of fp32, so rounding its results to fp32 is safe. Forms with
// "approx" may be less accurate on a GPU than they are here.
#include <type_traits>

#include "floats.h"

namespace ptx {
namespace {

struct Sqrt {
  static double Do(double a, double, double) { return std::sqrt(a); }
};
struct Rcp {
  static double Do(double a, double, double) { return 1 / a; }
};
struct Rsqrt {
  static double Do(double a, double, double) { return 1 / std::sqrt(a); }
};
struct Ex2 {
  static double Do(double a, double, double) { return std::exp2(a); }
};
struct Lg2 {
  static double Do(double a, double, double) { return std::log2(a); }
};
struct Sin {
  static double Do(double a, double, double) { return std::sin(a); }
};
struct Cos {
  static double Do(double a, double, double) { return std::cos(a); }
};
struct Tanh {
  static double Do(double a, double, double) { return std::tanh(a); }
};

// fp64 itself, rounded to nearest.
template <class F>
struct Double {
  static double Do(double a) { return F::Do(a, 0, 0); }
};

// The rough forms of fp64: 20 digits of the argument, 20 digits of the result, no denormals.
template <class F>
struct Rough {
  static double Do(double a) { return Upper(Flushed(F::Do(Upper(Flushed(a)), 0, 0))); }
  static double Upper(double a) {
    uint64_t bits;
    std::memcpy(&bits, &a, sizeof bits);
    bits &= 0xffffffff00000000u;
    std::memcpy(&a, &bits, sizeof bits);
    return a;
  }
  static double Flushed(double a) {
    return std::fabs(a) < 2.2250738585072014e-308 ? std::copysign(0.0, a) : a;
  }
};

// Of fp64 the ISA has "rn" for roots and reciprocals, "approx.ftz" for reciprocals of both.
template <class F>
Run OfDouble(bool approximate, const Modes& modes) {
  constexpr bool kReciprocal = std::is_same_v<F, Rcp> || std::is_same_v<F, Rsqrt>;
  constexpr bool kExact = std::is_same_v<F, Rcp> || std::is_same_v<F, Sqrt>;
  if (modes.saturate || modes.rounding != Rounding::kNearest) return nullptr;
  if (approximate) return kReciprocal && modes.flush ? Map1<Rough<F>, double> : nullptr;
  return kExact && !modes.flush ? Map1<Double<F>, double> : nullptr;
}

template <class F>
void Approximate(Decoder& d) {
  const bool approximate = d.Has("approx");
  const Modes modes = Modes::Take(d);
  const Type type = d.TakeType();
  d.inst.detail = modes.Packed();
  const Run run = type == Type::kF64 ? OfDouble<F>(approximate, modes) : AnyMode<F, 1>(type);
  Uniform(d, type, 1, run, kSpecial);
}

}  // namespace

void AddFunctions(Table* table) {
  Table& t = *table;
  t["sqrt"] = Approximate<Sqrt>;
  t["rcp"] = Approximate<Rcp>;
  t["rsqrt"] = Approximate<Rsqrt>;
  t["ex2"] = Approximate<Ex2>;
  t["lg2"] = Approximate<Lg2>;
  t["sin"] = Approximate<Sin>;
  t["cos"] = Approximate<Cos>;
  t["tanh"] = Approximate<Tanh>;
}

}  // namespace ptx
