// Integers: add, sub, div, rem, min, max, neg, abs.
#include "combine.h"
#include "integers.h"

namespace ptx {
namespace {

struct Sub {
  template <class T>
  static T Do(T a, T b) {
    return static_cast<T>(Wrap<T>(a) - Wrap<T>(b));
  }
};
struct MulLo {
  template <class T>
  static T Do(T a, T b) {
    return static_cast<T>(uint64_t(a) * uint64_t(b));
  }
};
// Division by zero gives all ones, as on NVIDIA's GPUs (PTX leaves it open).
struct Div {
  template <class T>
  static T Do(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    return b == static_cast<T>(-1) && std::is_signed_v<T> ? Sub::Do(T(0), a)
                                                          : static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T Do(T a, T b) {
    return Sub::Do(a, MulLo::Do(Div::Do(a, b), b));
  }
};
struct Neg {
  template <class T>
  static T Do(T a) {
    return Sub::Do(T(0), a);
  }
};
struct Abs {
  template <class T>
  static T Do(T a) {
    return a < 0 ? Neg::Do(a) : a;
  }
};

template <class F>
Run One(Type type) {
  switch (type) {
    case Type::kS16: return Map1<F, int16_t>;
    case Type::kS32: return Map1<F, int32_t>;
    case Type::kS64: return Map1<F, int64_t>;
    default: return nullptr;
  }
}

}  // namespace

// Forms of floats are put before these by AddFloats, for names that both have.
template <class F>
void Integer2(Decoder& d) {
  const Type type = d.TakeType();
  Uniform(d, type, 2, Two<F>(type), kAlu);
}

void AddArithmetic(Table* table) {
  Table& t = *table;
  t["add"] = Integer2<Add>;
  t["sub"] = Integer2<Sub>;
  t["div"] = Integer2<Div>;
  t["rem"] = Integer2<Rem>;
  t["min"] = Integer2<Least>;
  t["max"] = Integer2<Most>;
  t["neg"] = [](Decoder& d) {
    const Type type = d.TakeType();
    Uniform(d, type, 1, One<Neg>(type), kAlu);
  };
  t["abs"] = [](Decoder& d) {
    const Type type = d.TakeType();
    Uniform(d, type, 1, One<Abs>(type), kAlu);
  };
}

}  // namespace ptx
