// What products of warpgroups compute: 64 rows, 16 of them each warp's.
#include "half.h"
#include "warpgroup.h"

namespace ptx {
namespace {

constexpr int kMostColumns = 32;
constexpr int kMostFeatures = 256;

float Value(uint32_t bits, Type type) {
  switch (type) {
    case Type::kF16: return HalfTable()[bits & 0xffff];
    case Type::kBF16: return BfloatValue(static_cast<uint16_t>(bits));
    default: return BitCast<float>(bits & 0xffffe000u);  // tf32 has 10 digits behind the point
  }
}

// An element of a matrix in shared memory; zero outside, which was reported.
float Loaded(const Warp& warp, const Matrix& matrix, int row, int column, Type type) {
  const uint64_t at = matrix.At(row, column);
  const auto bytes = static_cast<size_t>(Bytes(type));
  if (at + bytes > warp.block->shared.size()) return 0;
  uint32_t bits = 0;
  std::memcpy(&bits, warp.block->shared.data() + at, bytes);
  return Value(bits, type);
}

// An element of a fragment in registers: pairs of 16 bits, or one number of 32.
float Held(const Warp& warp, const Inst& inst, int row, int column, Type type) {
  const int each = 4 / Bytes(type), quarter = 4 * each;
  const int lane = row % 8 * 4 + column % quarter / each;
  const int r = row / 8 + column / quarter * 2;
  const uint32_t word = warp.At<uint32_t>(inst.args[kHeld + r])[lane];
  return Value(each == 2 ? word >> 16 * (column % 2) : word, type);
}

using Left = float[kWarpRows][kMostColumns];

// Two of four columns are stored; a nibble of metadata says which. The lane pair that the selector
// names has those of stored columns 0 to 7 and 8 to 15, rows 8 to 15 in the upper half.
int ColumnOf(Warp& warp, const Inst& inst, const ProductForm& form, int row, int slot) {
  const int holder = row % 8 * 4 + 2 * form.selector + slot / 8;
  const uint32_t word = warp.At<uint32_t>(inst.args[kMetadata])[holder];
  const int shift = 16 * (row / 8) + 2 * (slot % 8);
  const auto place = static_cast<int>(word >> shift & 3);
  if (slot % 2 == 1 && place <= static_cast<int>(word >> (shift - 2) & 3))
    Report(warp, inst, holder, "metadata", "", "columns of a quad must ascend");
  return slot / 2 * 4 + place;
}

void LoadLeft(Warp& warp, const Product& product, const ProductForm& form, Left& left) {
  const Inst& inst = *product.inst;
  const Matrix matrix = LeftOf(product);
  for (int row = 0; row < kWarpRows; ++row) {
    for (int k = 0; k < form.stored(); ++k) {
      const float value = form.held ? Held(warp, inst, row, k, form.type)
                                    : Loaded(warp, matrix, FirstRow(warp) + row, k, form.type);
      const int column = form.sparse ? ColumnOf(warp, inst, form, row, k) : k;
      left[row][column] = form.negate_left != form.negate_right ? -value : value;
    }
  }
}

}  // namespace

ProductForm FormOf(const Inst& inst) {
  ProductForm form;
  std::memcpy(static_cast<void*>(&form), &inst.offset, sizeof form);
  return form;
}

Places Inputs(const Inst& inst) {
  const ProductForm form = FormOf(inst);
  return {inst.args + kMetadata, inst.args + kHeld + (form.held ? 4 : 0)};
}

Places Results(const Inst& inst) {
  const ProductForm form = FormOf(inst);
  const Place* first = inst.args + kHeld + (form.held ? 4 : 0);
  return {first, first + form.features / 2};
}

int FirstRow(const Warp& warp) { return warp.index % 4 * kWarpRows; }

Matrix LeftOf(const Product& product) {
  const ProductForm form = FormOf(*product.inst);
  return {product.left, form.bytes(), form.turn_left != 0};
}

Matrix RightOf(const Product& product) {
  const ProductForm form = FormOf(*product.inst);
  return {product.right, form.bytes(), form.turn_right != 0};
}

// Products are exact; a sum is rounded once, to fp32, as that of mma is.
void Multiply(Warp& warp, const Product& product) {
  const ProductForm form = FormOf(*product.inst);
  const Matrix matrix = RightOf(product);
  const Place* sums = Results(*product.inst).first;
  Left left{};
  LoadLeft(warp, product, form, left);
  for (int n = 0; n < form.features; ++n) {
    double right[kMostColumns];
    for (int k = 0; k < form.columns(); ++k) right[k] = Loaded(warp, matrix, n, k, form.type);
    for (int row = 0; row < kWarpRows; ++row) {
      double sum = 0;
      for (int k = 0; k < form.columns(); ++k) sum += static_cast<double>(left[row][k]) * right[k];
      const int lane = row % 8 * 4 + n % 8 / 2, r = n / 8 * 4 + row / 8 * 2 + n % 2;
      float& to = warp.At<float>(sums[r])[lane];
      to = static_cast<float>(AddToOdd(sum, product.adds ? to : 0.0f));
    }
  }
  warp.block->launch->counters.multiply_adds +=
      static_cast<uint64_t>(kWarpRows) * form.features * form.columns();
}

}  // namespace ptx
