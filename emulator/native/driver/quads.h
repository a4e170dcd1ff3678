// Matrices of the stand-in for cuSPARSELt, and what it makes of 2:4 ones: a header, the stored
// values of all rows, then a byte for the column of each. Only the stand-in knows: a program that
// reads them otherwise would not do with NVIDIA's.
#pragma once
#include <cstdint>
#include <cstring>
#include <new>

#include "../executor/api.h"
#include "cuda_abi.h"
#include "numbers.h"

namespace quads {

constexpr int kHalf = library::kHalf, kBfloat = 14, kColumnwise = 1, kRowwise = 2;
constexpr uint64_t kBytes = 2, kQuad = 4, kKept = 2;
constexpr uint64_t kMatrix = 0x7473317274;  // the mark of a descriptor

struct Matrix {
  uint64_t mark = kMatrix;
  int64_t rows, columns, pitch;
  int type, order;
  bool sparse;

  bool Sound() const {
    const int64_t multiple = sparse ? 16 : 8;
    const bool by_rows = order == kRowwise;
    return mark == kMatrix && (type == kHalf || type == kBfloat) && rows > 0 && columns > 0 &&
           rows % multiple == 0 && columns % multiple == 0 && (by_rows || order == kColumnwise) &&
           pitch >= (by_rows ? columns : rows) && pitch % 8 == 0;
  }
  uint64_t At(int64_t row, int64_t column) const {
    return static_cast<uint64_t>(order == kRowwise ? row * pitch + column : column * pitch + row);
  }
  uint64_t Size() const { return (At(rows - 1, columns - 1) + 1) * kBytes; }
  bool Like(const Matrix& o) const {
    return rows == o.rows && columns == o.columns && pitch == o.pitch && type == o.type &&
           order == o.order && sparse == o.sparse;
  }
};

struct Header {
  uint64_t mark = 0x74737132346c74;
  int64_t rows, columns;
  int type, unused = 0;
};

inline uint64_t Values(const Matrix& m) {
  return static_cast<uint64_t>(m.rows) * static_cast<uint64_t>(m.columns) * kKept / kQuad;
}

inline uint64_t CompressedBytes(const Matrix& m) {
  return sizeof(Header) + Values(m) * kBytes + Values(m);  // a byte a column: simple, not small
}

// Store what a quad holds; false if that is too much.
inline bool CompressQuad(const void* dense, uint64_t at, uint16_t* values, uint8_t* columns) {
  const uint16_t* quad = static_cast<const uint16_t*>(dense) + at;
  uint64_t count = 0;
  for (uint8_t i = 0; i < kQuad; ++i) {
    if (!(quad[i] & 0x7fff)) continue;
    if (count == kKept) return false;
    values[count] = quad[i];
    columns[count++] = i;
  }
  for (; count < kKept; ++count) values[count] = columns[count] = 0;
  return true;
}

// Compress a matrix, with a buffer of so many bytes; it fails where the mask is not 2:4.
inline int Compress(const Matrix& m, const void* dense, void* compressed, void* buffer,
                    uint64_t used) {
  const uint64_t bytes = CompressedBytes(m);
  const bool there = ts_ptx_holds(dense, m.Size(), 1) && ts_ptx_holds(compressed, bytes, 0) &&
                     ts_ptx_holds(buffer, used, 0);
  if (!there) return kLaunchFailed;
  std::memset(buffer, 0xff, used);
  auto* header = new (compressed) Header;
  header->rows = m.rows, header->columns = m.columns, header->type = m.type;
  auto* values = reinterpret_cast<uint16_t*>(header + 1);
  auto* columns = reinterpret_cast<uint8_t*>(values + Values(m));
  for (int64_t row = 0; row < m.rows; ++row) {
    for (int64_t column = 0; column < m.columns; column += kQuad) {
      if (!CompressQuad(dense, m.At(row, column), values, columns)) return kLaunchFailed;
      values += kKept, columns += kKept;
    }
  }
  ts_ptx_wrote(compressed, bytes);
  return kSuccess;
}

}  // namespace quads
