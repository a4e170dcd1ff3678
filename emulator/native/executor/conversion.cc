#include "conversion.h"

#include <algorithm>

namespace ptx {

int64_t SignExtended(uint64_t raw, int bytes) {
  const int shift = 64 - 8 * bytes;
  return static_cast<int64_t>(raw << shift) >> shift;
}

namespace {

double FloatOf(uint64_t raw, Type type) {
  switch (type) {
    case Type::kF16: return HalfTable()[raw & 0xffff];
    case Type::kBF16: return BfloatValue(static_cast<uint16_t>(raw));
    case Type::kF32: return BitCast<float>(static_cast<uint32_t>(raw));
    default: return BitCast<double>(raw);
  }
}

uint64_t FloatBits(double v, const Form& form) {
  const Modes modes{form.rounding, form.saturate, form.flush};
  switch (form.to) {
    case Type::kF16: return Output<Half16>(v, modes).bits;
    case Type::kBF16: return Output<Bfloat16>(v, modes).bits;
    case Type::kF32: return BitCast<uint32_t>(Output<Single>(v, modes).value);
    default: return BitCast<uint64_t>(v);
  }
}

double Whole(double v, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearest: return std::nearbyint(v);
    case Rounding::kZero: return std::trunc(v);
    case Rounding::kDown: return std::floor(v);
    default: return std::ceil(v);
  }
}

// Beyond the range: its ends; NaN: zero.
uint64_t IntegerOf(double v, Type to) {
  const int bits = 8 * Bytes(to);
  if (std::isnan(v)) return 0;
  const double above = std::ldexp(1.0, OfSigned(to) ? bits - 1 : bits);
  const uint64_t most =
      OfSigned(to) ? (uint64_t{1} << (bits - 1)) - 1 : ~uint64_t{0} >> (64 - bits);
  if (v >= above) return most;
  if (OfSigned(to)) return v <= -above ? ~most : static_cast<uint64_t>(static_cast<int64_t>(v));
  return v <= 0 ? 0 : static_cast<uint64_t>(v);
}

}  // namespace

uint64_t FromFloat(uint64_t raw, const Form& form) {
  double v = FloatOf(raw, form.from);
  if (form.flush && form.from == Type::kF32 && std::fabs(v) < Single::kLeast)
    v = std::copysign(0.0, v);
  if (form.integral || !OfFloat(form.to)) v = Whole(v, form.rounding);
  if (form.relu && !(v > 0)) v = std::isnan(v) ? v : 0.0;
  return OfFloat(form.to) ? FloatBits(v, form) : IntegerOf(v, form.to);
}

uint64_t FromInteger(uint64_t raw, const Form& form) {
  const int bytes = Bytes(form.from);
  const bool negative = OfSigned(form.from) && SignExtended(raw, bytes) < 0;
  const uint64_t value = OfSigned(form.from) ? static_cast<uint64_t>(SignExtended(raw, bytes))
                                             : raw & (~uint64_t{0} >> (64 - 8 * bytes));
  if (OfFloat(form.to)) {
    if (form.to == Type::kF32) {  // at once: 64 bits do not fit a double
      return BitCast<uint32_t>(negative ? static_cast<float>(static_cast<int64_t>(value))
                                        : static_cast<float>(value));
    }
    return FloatBits(
        negative ? static_cast<double>(static_cast<int64_t>(value)) : static_cast<double>(value),
        form);
  }
  if (!form.saturate) return value;
  const int bits = 8 * Bytes(form.to);
  const uint64_t most =
      OfSigned(form.to) ? (uint64_t{1} << (bits - 1)) - 1 : ~uint64_t{0} >> (64 - bits);
  if (!negative) return std::min(value, most);
  if (!OfSigned(form.to)) return 0;
  return static_cast<uint64_t>(
      std::max(static_cast<int64_t>(value), -static_cast<int64_t>(most) - 1));
}

}  // namespace ptx
