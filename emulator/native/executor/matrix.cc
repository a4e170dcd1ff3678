// Tensor cores of one warp, by the fragments of the PTX ISA: mma of fp16, bf16 and bytes, mma.sp.
#include <algorithm>

#include "lanes.h"

namespace ptx {
namespace {

constexpr int kRows = 16, kFeatures = 8;

using Read = float (*)(uint16_t);
float ReadHalf(uint16_t bits) { return HalfTable()[bits]; }

// Element `k` of the pairs in a register.
template <Read kRead>
float Element(const uint32_t* lanes, int lane, int k) {
  return kRead(static_cast<uint16_t>(lanes[lane] >> 16 * k));
}

void Count(Warp& w, int columns) {
  w.block->launch->counters.multiply_adds += kRows * kFeatures * columns;
}

// Products are exact; sums are rounded once, to fp32: ascending columns, fp64, then the old value.
// (fp64 sums of up to 32 products differ from exact ones in the 53rd digit at most. The ISA leaves
// order and rounding open.)
template <class D>
void Accumulate(Warp& w, const Inst& i, const float (*a)[32], const float (*b)[kFeatures],
                int columns) {
  constexpr int kHalves = sizeof(float) / sizeof(D), kRegisters = 4 / kHalves;
  const Place *d = i.args, *c = i.args + kRegisters;
  D old[kRegisters][kHalves * kLanes];
  for (int r = 0; r < kRegisters; ++r) std::memcpy(old[r], w.At<D>(c[r]), sizeof old[r]);
  for (int row = 0; row < kRows; ++row) {
    double sums[kFeatures] = {};
    for (int k = 0; k < columns; ++k) {
      const double left = a[row][k];
      for (int n = 0; n < kFeatures; ++n) sums[n] += left * static_cast<double>(b[k][n]);
    }
    for (int n = 0; n < kFeatures; ++n) {
      const int lane = row % 8 * 4 + n / 2, element = row / 8 * 2 + n % 2;
      const int r = element / kHalves, at = lane * kHalves + element % kHalves;
      if constexpr (kHalves == 1) {
        w.At<D>(d[r])[at] = static_cast<D>(AddToOdd(sums[n], old[r][at]));
      } else {
        w.At<D>(d[r])[at] = D::Of(AddToOdd(sums[n], old[r][at].Value()));
      }
    }
  }
  Count(w, columns);
}

// B: registers hold pairs of neighbouring columns, lane 4 n + i those from 2 i on, of feature n.
template <Read kRead>
void LoadRight(const Warp& w, const Place* places, int registers, float (*b)[kFeatures]) {
  for (int r = 0; r < registers; ++r) {
    const uint32_t* lanes = w.At<uint32_t>(places[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int k = 0; k < 2; ++k)
        b[8 * r + lane % 4 * 2 + k][lane / 4] = Element<kRead>(lanes, lane, k);
    }
  }
}

// Arguments: d, c (4 registers each, 2 of halves), a (two for each of b), b; detail: those of b.
template <Read kRead, class D>
void Multiply(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  const Place* registers = i.args + 2 * sizeof(D);
  const int groups = i.detail;
  float a[kRows][32], b[32][kFeatures];
  for (int r = 0; r < 2 * groups; ++r) {
    const uint32_t* lanes = w.At<uint32_t>(registers[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int k = 0; k < 2; ++k) {
        a[lane / 4 + 8 * (r % 2)][lane % 4 * 2 + k + 8 * (r / 2)] = Element<kRead>(lanes, lane, k);
      }
    }
  }
  LoadRight<kRead>(w, registers + 2 * groups, groups, b);
  Accumulate<D>(w, i, a, b, 8 * groups);
}

// Registers hold a number of fp32, of which tf32 has the upper 19 bits; arguments are as above.
void MultiplyWords(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  const int groups = i.detail;
  float a[kRows][32], b[32][kFeatures];
  const auto value = [&](int place, int lane) {
    return BitCast<float>(w.At<uint32_t>(i.args[8 + place])[lane] & 0xffffe000u);
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int r = 0; r < 2 * groups; ++r)
      a[lane / 4 + 8 * (r % 2)][lane % 4 + 4 * (r / 2)] = value(r, lane);
    for (int r = 0; r < groups; ++r) b[lane % 4 + 4 * r][lane / 4] = value(2 * groups + r, lane);
  }
  Accumulate<float>(w, i, a, b, 4 * groups);
}

// Two of four columns of A are stored; two bits of metadata for each say which.
// Arguments: d, c, a, b (4 each), metadata; detail: the selector.
template <Read kRead>
void MultiplySparse(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  float a[kRows][32] = {}, b[32][kFeatures];
  const uint32_t* metadata = w.At<uint32_t>(i.args[16]);
  for (int row = 0; row < kRows; ++row) {
    for (int slot = 0; slot < 16; ++slot) {  // of stored columns
      // The holder of stored columns 0 to 7 is the first lane of the pair that the selector names,
      // of 8 to 15 the second; rows 0 to 7 lie in the lower half of its word.
      const int holder = row % 8 * 4 + 2 * i.detail + slot / 8;
      const uint32_t place = metadata[holder] >> (16 * (row / 8) + 2 * (slot % 8)) & 3;
      const int lane = row % 8 * 4 + slot % 8 / 2, r = row / 8 + 2 * (slot / 8);
      if (slot % 2 == 1) {
        const uint32_t before = metadata[holder] >> (16 * (row / 8) + 2 * (slot % 8 - 1)) & 3;
        const bool bad = i.offset ? place <= before : place == before;
        if (bad)
          Report(w, i, holder, "metadata", "",
                 i.offset ? "columns of a quad must ascend" : "columns of a quad must differ");
      }
      a[row][slot / 2 * 4 + place] = Element<kRead>(w.At<uint32_t>(i.args[8 + r]), lane, slot % 2);
    }
  }
  LoadRight<kRead>(w, i.args + 12, 4, b);
  Accumulate<float>(w, i, a, b, 32);
}

// Registers hold four neighbouring columns, lane 4 n + i those from 4 i on, of 16 for each register
// of B. Sums of 32 bits wrap.
// Arguments: d, c (4 each), a (two for each of b), b; detail: the registers of b.
template <class Left, class Right>
void MultiplyBytes(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  const int groups = i.detail;
  int32_t a[kRows][32], b[32][kFeatures];
  uint32_t old[4][kLanes];
  for (int r = 0; r < 4; ++r) std::memcpy(old[r], w.At<uint32_t>(i.args[4 + r]), sizeof old[r]);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int k = 0; k < 16 * groups; k += 16) {
      const int r = k / 16, first = k + lane % 4 * 4;
      for (int n = 0; n < 4; ++n) {
        const auto byte = [&](int place) { return w.At<uint32_t>(i.args[place])[lane] >> 8 * n; };
        a[lane / 4][first + n] = static_cast<Left>(byte(8 + 2 * r));
        a[lane / 4 + 8][first + n] = static_cast<Left>(byte(9 + 2 * r));
        b[first + n][lane / 4] = static_cast<Right>(byte(8 + 2 * groups + r));
      }
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int r = 0; r < 4; ++r) {
      const int row = lane / 4 + r / 2 * 8, feature = lane % 4 * 2 + r % 2;
      uint32_t sum = old[r][lane];
      for (int k = 0; k < 16 * groups; ++k) sum += static_cast<uint32_t>(a[row][k] * b[k][feature]);
      w.At<uint32_t>(i.args[r])[lane] = sum;
    }
  }
  Count(w, 16 * groups);
}

void DecodeMultiplyBytes(Decoder& d) {
  const bool wide = d.Has("m16n8k32");
  if (!wide && !d.Has("m16n8k16")) d.Unknown();
  const Type sum = d.TakeType(), left = d.TakeType(), right = d.TakeType(), before = d.TakeType();
  d.End();
  const auto is_byte = [](Type type) { return type == Type::kS8 || type == Type::kU8; };
  if (sum != Type::kS32 || before != Type::kS32 || !is_byte(left) || !is_byte(right)) d.Unknown();
  d.Operands(4);
  d.Vector(0, 4, Type::kB32, true);
  d.Vector(3, 4, Type::kB32, false);
  d.Vector(1, wide ? 4 : 2, Type::kB32, false);
  d.Vector(2, wide ? 2 : 1, Type::kB32, false);
  d.inst.detail = wide ? 2 : 1;
  const bool from = left == Type::kS8, by = right == Type::kS8;
  d.inst.run = from ? (by ? MultiplyBytes<int8_t, int8_t> : MultiplyBytes<int8_t, uint8_t>)
                    : (by ? MultiplyBytes<uint8_t, int8_t> : MultiplyBytes<uint8_t, uint8_t>);
  d.inst.pipe = kTensor;
}

void DecodeMultiplySparse(Decoder& d) {
  d.inst.offset = d.Has("sp::ordered_metadata");
  if (!d.inst.offset && !d.Has("sp")) d.Unknown();
  if (!d.Has("m16n8k32")) d.Unknown();
  const Type sum = d.TakeType(), left = d.TakeType(), right = d.TakeType(), before = d.TakeType();
  d.End();
  if (sum != Type::kF32 || before != Type::kF32 || left != right) d.Unknown();
  if (left != Type::kF16 && left != Type::kBF16) d.Unknown();
  d.Operands(6);
  d.Vector(0, 4, Type::kF32, true);
  d.Vector(3, 4, Type::kF32, false);
  d.Vector(1, 4, Type::kB32, false);
  d.Vector(2, 4, Type::kB32, false);
  d.Push(d.Source(4, Type::kB32));
  d.inst.detail = static_cast<int>(d.Immediate(5));
  if (d.inst.detail > 1) d.Unknown();
  d.inst.run = left == Type::kF16 ? MultiplySparse<ReadHalf> : MultiplySparse<BfloatValue>;
  d.inst.pipe = kTensor;
}

void DecodeMultiplyFloats(Decoder& d) {
  const bool whole = d.Has("m16n8k16"), half = !whole && d.Has("m16n8k8");
  if (!whole && !half && !d.Has("m16n8k4")) d.Unknown();
  const Type sum = d.TakeType();
  const bool words = d.Has("tf32") && d.Has("tf32");
  const Type left = words ? Type::kF32 : d.TakeType(), right = words ? left : d.TakeType();
  const Type before = d.TakeType();
  d.End();
  const bool narrow = sum == Type::kF16 && left == Type::kF16;
  if (sum != before || left != right || (sum != Type::kF32 && !narrow)) d.Unknown();
  if (!words && left != Type::kF16 && left != Type::kBF16) d.Unknown();
  if (words ? whole : !whole && !half) d.Unknown();
  const size_t sums = narrow ? 2 : 4, of_right = (words ? half : whole) ? 2 : 1;
  d.Operands(4);
  d.Vector(0, sums, Type::kB32, true);
  d.Vector(3, sums, Type::kB32, false);
  d.Vector(1, 2 * of_right, Type::kB32, false);
  d.Vector(2, of_right, Type::kB32, false);
  d.inst.detail = static_cast<int>(of_right);
  if (words) d.inst.run = MultiplyWords;
  else if (narrow) d.inst.run = Multiply<ReadHalf, Half>;
  else d.inst.run = left == Type::kF16 ? Multiply<ReadHalf, float> : Multiply<BfloatValue, float>;
  d.inst.pipe = kTensor;
}

void DecodeMultiply(Decoder& d) {
  if (!d.Has("sync") || !d.Has("aligned") || !d.Has("row") || !d.Has("col")) d.Unknown();
  if (!d.OfFloats()) return DecodeMultiplyBytes(d);
  const Decode decode = d.operands() == 6 ? DecodeMultiplySparse : DecodeMultiplyFloats;
  decode(d);
}

}  // namespace

void AddMatrix(Table* table) { (*table)["mma"] = DecodeMultiply; }

}  // namespace ptx
