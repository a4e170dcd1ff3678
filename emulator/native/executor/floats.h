// Formats of floats and their rounding: what arithmetic and conversions share.
#pragma once
#include <cfenv>

#include "lanes.h"

namespace ptx {

enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp };

// Modifiers of a float instruction, packed into Inst::detail.
struct Modes {
  Rounding rounding = Rounding::kNearest;
  bool saturate = false, flush = false;

  static Modes Take(Decoder& d) {
    Modes m;
    if (d.Has("rz")) m.rounding = Rounding::kZero;
    else if (d.Has("rm")) m.rounding = Rounding::kDown;
    else if (d.Has("rp")) m.rounding = Rounding::kUp;
    else d.Has("rn");
    m.saturate = d.Has("sat");
    m.flush = d.Has("ftz");
    return m;
  }
  int Packed() const { return static_cast<int>(rounding) | saturate << 2 | flush << 3; }
  static Modes Of(int packed) {
    return {static_cast<Rounding>(packed & 3), (packed & 4) != 0, (packed & 8) != 0};
  }
};

// Step from a float rounded to nearest to the one that the mode asks for.
inline float Directed(double exact, Rounding rounding) {
  const float nearest = static_cast<float>(exact);
  if (rounding == Rounding::kNearest || std::isnan(exact)) return nearest;
  const double found = nearest;
  const bool down = rounding == Rounding::kDown || (rounding == Rounding::kZero && exact > 0);
  if (found == exact) return nearest;
  if (down) return found > exact ? std::nextafterf(nearest, -INFINITY) : nearest;
  return found < exact ? std::nextafterf(nearest, INFINITY) : nearest;
}

struct Single {
  float value;
  static constexpr double kLeast = 1.1754943508222875e-38;
  static Single Of(double v, Rounding rounding) { return {Directed(v, rounding)}; }
  double Value() const { return value; }
};
struct Half16 : Half {
  static constexpr double kLeast = 6.103515625e-05;
  static Half16 Of(double v, Rounding) { return {Half::Of(v)}; }
};
struct Bfloat16 : Bfloat {
  static constexpr double kLeast = 1.1754943508222875e-38;
  static Bfloat16 Of(double v, Rounding) { return {Bfloat::Of(v)}; }
};

template <class T>
double Input(T value, const Modes& modes) {
  const double v = value.Value();
  return modes.flush && std::fabs(v) < T::kLeast ? std::copysign(0.0, v) : v;
}

template <class T>
T Output(double exact, const Modes& modes) {
  if (modes.saturate) exact = exact > 0 ? std::fmin(exact, 1.0) : 0.0;  // NaN becomes 0
  const T made = T::Of(exact, modes.rounding);
  const bool tiny = modes.flush && std::fabs(made.Value()) < T::kLeast;
  return tiny ? T::Of(std::copysign(0.0, exact), Rounding::kNearest) : made;
}

// Any mode, lane by lane: F gives the exact result, or its image rounded to odd in fp64.
template <class F, class T, int kSources>
void Rounded(Warp& w, const Inst& i, Mask mask) {
  const Modes modes = Modes::Of(i.detail);
  T* d = w.At<T>(i.args[0]);
  const T* a = w.At<T>(i.args[1]);
  const T* b = w.At<T>(i.args[kSources > 1 ? 2 : 1]);
  const T* c = w.At<T>(i.args[kSources > 2 ? 3 : 1]);
  for (int l = 0; l < kLanes; ++l) {
    if (mask >> l & 1)
      d[l] = Output<T>(F::Do(Input(a[l], modes), Input(b[l], modes), Input(c[l], modes)), modes);
  }
}

// The same for two numbers in a register.
template <class F, class T, int kSources>
void RoundedPair(Warp& w, const Inst& i, Mask mask) {
  const Modes modes = Modes::Of(i.detail);
  auto lanes = [&](int n) { return w.At<T>(i.args[n <= kSources ? n : 1]); };
  T *d = lanes(0), *a = lanes(1), *b = lanes(2), *c = lanes(3);
  for (int k = 0; k < 2 * kLanes; ++k) {
    if (mask >> k / 2 & 1)
      d[k] = Output<T>(F::Do(Input(a[k], modes), Input(b[k], modes), Input(c[k], modes)), modes);
  }
}

template <class F, int kSources>
Run AnyMode(Type type) {
  switch (type) {
    case Type::kF32: return Rounded<F, Single, kSources>;
    case Type::kF16: return Rounded<F, Half16, kSources>;
    case Type::kBF16: return Rounded<F, Bfloat16, kSources>;
    case Type::kF16x2: return RoundedPair<F, Half16, kSources>;
    case Type::kBF16x2: return RoundedPair<F, Bfloat16, kSources>;
    default: return nullptr;
  }
}

}  // namespace ptx
