// fp16 and bf16: exact to fp32, rounded to the nearest (ties to even) from fp32 and fp64.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace ptx {

template <class To, class From>
To BitCast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Round `value` to a float of `kDigits` significant bits and exponents as given; return its bits.
// `value` may be the rounded-to-odd image of an exact number.
template <int kDigits, int kLeast, int kMost>
inline uint16_t Round(double value) {
  constexpr int kFraction = kDigits - 1;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7fff;
  double size = std::fabs(value);
  constexpr uint16_t kInfinity = static_cast<uint16_t>((kMost - kLeast + 2) << kFraction);
  if (std::isinf(size)) return sign | kInfinity;
  if (size == 0) return sign;
  int exponent = std::ilogb(size);
  if (exponent < kLeast) exponent = kLeast;
  const double scaled = std::ldexp(size, kFraction - exponent);  // exact
  const auto units = static_cast<uint32_t>(std::nearbyint(scaled));
  // Units of a denormal number have no leading bit; a carry moves into the exponent by itself.
  const uint32_t bits = units + (static_cast<uint32_t>(exponent - kLeast) << kFraction);
  return sign | static_cast<uint16_t>(bits >= kInfinity ? kInfinity : bits);
}

struct Half {
  uint16_t bits;
  static Half Of(double value) { return {Round<11, -14, 15>(value)}; }
  double Value() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) size = fraction == 0 ? INFINITY : NAN;
    return bits & 0x8000 ? -size : size;
  }
};

struct Bfloat {
  uint16_t bits;
  static Bfloat Of(double value) { return {Round<8, -126, 127>(value)}; }
  double Value() const { return BitCast<float>(static_cast<uint32_t>(bits) << 16); }
};

// All fp16 and bf16 numbers as fp32, by their bits.
const float* HalfTable();
inline float BfloatValue(uint16_t bits) {
  return BitCast<float>(static_cast<uint32_t>(bits) << 16);
}

// a + b, to odd: rounding it again to half as many digits is rounding the exact sum once.
inline double AddToOdd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - a, error = (a - (sum - part)) + (b - part);
  uint64_t bits = BitCast<uint64_t>(sum);
  if (error != 0 && (bits & 1) == 0) {
    const bool away = (error > 0) == (sum > 0);
    bits = away ? bits + 1 : bits - 1;
  }
  return BitCast<double>(bits);
}

}  // namespace ptx
