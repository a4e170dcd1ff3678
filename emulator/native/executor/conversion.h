// One number through a conversion: from the bits of its register to those of another.
#pragma once
#include "floats.h"

namespace ptx {

inline bool OfFloat(Type type) { return type >= Type::kF16; }
inline bool OfSigned(Type type) { return type >= Type::kS8 && type <= Type::kS64; }

struct Form {
  Type to, from;
  uint8_t wide_to : 4, wide_from : 4;  // bytes of the registers
  Rounding rounding;
  bool integral;  // a float is rounded to an integer
  bool saturate, flush, relu;
};  // as large as Inst::offset, where it is kept

uint64_t FromFloat(uint64_t raw, const Form& form);
uint64_t FromInteger(uint64_t raw, const Form& form);
int64_t SignExtended(uint64_t raw, int bytes);

}  // namespace ptx
