// Roots, reciprocals and the approximated functions of one float.
//
// fp64 has more than twice the digits of fp32, so rounding its results again is safe. Forms with
// "approx" may be less accurate on a GPU than they are here.
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

template <class F>
void Approximate(Decoder& d) {
  d.Has("approx");
  const Modes modes = Modes::Take(d);
  const Type type = d.TakeType();
  d.inst.detail = modes.Packed();
  Uniform(d, type, 1, AnyMode<F, 1>(type), kSpecial);
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
