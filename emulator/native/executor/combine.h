// What two elements become: in instructions, atomics, reductions of warps and of bulk copies.
#pragma once
#include <algorithm>
#include <type_traits>

#include "half.h"

namespace ptx {

// Integers wrap.
struct Sum {
  template <class T>
  static T Do(T a, T b) {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
  static Half Do(Half a, Half b) { return Half::Of(a.Value() + b.Value()); }
  static Bfloat Do(Bfloat a, Bfloat b) { return Bfloat::Of(a.Value() + b.Value()); }
};
struct Least {
  template <class T>
  static T Do(T a, T b) {
    return std::min(a, b);
  }
};
struct Most {
  template <class T>
  static T Do(T a, T b) {
    return std::max(a, b);
  }
};
struct BothBits {
  template <class T>
  static T Do(T a, T b) {
    return a & b;
  }
};
struct EitherBit {
  template <class T>
  static T Do(T a, T b) {
    return a | b;
  }
};
struct OneBit {
  template <class T>
  static T Do(T a, T b) {
    return a ^ b;
  }
};

}  // namespace ptx
