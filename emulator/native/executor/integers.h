// Handlers of integers: what sums and products share.
#pragma once
#include <type_traits>

#include "lanes.h"

namespace ptx {

// Wraps around, whatever the sign.
template <class T>
using Wrap = std::make_unsigned_t<T>;
struct Add {
  template <class T>
  static T Do(T a, T b) {
    return static_cast<T>(Wrap<T>(a) + Wrap<T>(b));
  }
};

template <class F>
Run Two(Type type) {
  switch (type) {
    case Type::kU16: return Map2<F, uint16_t>;
    case Type::kS16: return Map2<F, int16_t>;
    case Type::kU32: return Map2<F, uint32_t>;
    case Type::kS32: return Map2<F, int32_t>;
    case Type::kU64: return Map2<F, uint64_t>;
    case Type::kS64: return Map2<F, int64_t>;
    default: return nullptr;
  }
}

}  // namespace ptx
