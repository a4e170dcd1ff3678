// wgmma.mma_async: what a product is, and its part of a warp.
#pragma once
#include "machine.h"

namespace ptx {

// As large as Inst::offset, where it is kept.
struct ProductForm {
  uint16_t features = 0;                       // columns of the result
  Type type = Type::kF16;                      // of what is multiplied; kF32: of tf32
  uint8_t held : 1, sparse : 1, selector : 1;  // left matrix in registers, 2:4
  uint8_t negate_left : 1, negate_right : 1;
  uint8_t turn_left : 1, turn_right : 1;  // the other dimension is contiguous
  uint8_t unused[4] = {};
  ProductForm()
      : held(0),
        sparse(0),
        selector(0),
        negate_left(0),
        negate_right(0),
        turn_left(0),
        turn_right(0) {}
  int bytes() const { return Bytes(type); }
  int stored() const { return 32 / bytes(); }  // columns of the left matrix as they lie
  int columns() const { return sparse ? 2 * stored() : stored(); }
};

// Places in the arguments of an instruction.
enum ProductArgument { kScale, kLeft, kRight, kMetadata, kHeld };

struct Places {
  const Place *first, *last;
  const Place* begin() const { return first; }
  const Place* end() const { return last; }
};

bool IsProduct(const Inst& inst);
ProductForm FormOf(const Inst& inst);
Places Inputs(const Inst& inst);   // registers that a product reads until it is done; kNowhere too
Places Results(const Inst& inst);  // its sums

// A matrix in shared memory that a descriptor names: `rows` of the result, `columns` of products.
class Matrix {
 public:
  Matrix(uint64_t descriptor, int bytes, bool turned);
  uint64_t At(int row, int column) const;
  int across() const { return turned_ ? unit_ : 1; }  // elements of 16 bytes, in rows
  int along() const { return turned_ ? 1 : unit_; }   // and in columns

 private:
  uint64_t start_, leading_, stride_;
  int power_, unit_, bytes_;
  bool turned_;
};

// The matrices of a product, of which a warp has its own 16 rows of the left one.
Matrix LeftOf(const Product& product);
Matrix RightOf(const Product& product);
constexpr int kWarpRows = 16;
int FirstRow(const Warp& warp);

// Sums of a product, into registers of a warp.
void Multiply(Warp& warp, const Product& product);

}  // namespace ptx
