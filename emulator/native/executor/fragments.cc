// Matrices of 8 x 8 numbers of 16 bits: ldmatrix, stmatrix, movmatrix.
#include "lanes.h"
#include "memory.h"

namespace ptx {
namespace {

// Lanes 8 q to 8 q + 7 name the rows of matrix q, 16 bytes each; lane l receives elements 2 (l % 4)
// and the next of row l / 4, or of column l / 4 of a transposed matrix.
void LoadMatrix(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  Reached reached;
  Addresses(w, i, i.args[0], mask, reached.address);
  const Mask named = i.count == 4 ? kAll : (Mask{1} << 8 * i.count) - 1;
  Reach(w, i, Space::kShared, 16, mask & named, Use::kRead, &reached);
  for (int q = 0; q < i.count; ++q) {
    uint16_t rows[8][8] = {};
    for (int row = 0; row < 8; ++row) {
      const int lane = 8 * q + row;
      if (reached.lanes >> lane & 1) std::memcpy(rows[row], reached.data[lane], 16);
    }
    uint32_t* d = w.At<uint32_t>(i.args[1 + q]);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!(mask >> lane & 1)) continue;
      const int row = lane / 4, column = lane % 4 * 2;
      const uint16_t low = i.detail ? rows[column][row] : rows[row][column];
      const uint16_t high = i.detail ? rows[column + 1][row] : rows[row][column + 1];
      d[lane] = low | static_cast<uint32_t>(high) << 16;
    }
  }
}

void DecodeLoadMatrix(Decoder& d) {
  if (!d.Has("sync") || !d.Has("aligned") || !d.Has("m8n8")) d.Unknown();
  d.inst.count = d.Has("x1") ? 1 : d.Has("x2") ? 2 : d.Has("x4") ? 4 : 0;
  d.inst.detail = d.Has("trans");
  if (d.inst.count == 0 || !(d.Has("shared") || d.Has("shared::cta"))) d.Unknown();
  if (d.TakeType() != Type::kB16) d.Unknown();
  d.End();
  d.Operands(2);
  d.Address(d.operand(1));
  d.Vector(0, d.inst.count, Type::kB32, true);
  d.inst.space = Space::kShared;
  d.inst.pipe = kMemory;
  d.inst.run = LoadMatrix;
}

// The other way round.
void StoreMatrix(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  Reached reached;
  Addresses(w, i, i.args[0], mask, reached.address);
  const Mask named = i.count == 4 ? kAll : (Mask{1} << 8 * i.count) - 1;
  Reach(w, i, Space::kShared, 16, mask & named, Use::kWrite, &reached);
  for (int q = 0; q < i.count; ++q) {
    uint16_t rows[8][8] = {};
    const uint32_t* s = w.At<uint32_t>(i.args[1 + q]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      for (int k = 0; k < 2; ++k) {
        const auto value = static_cast<uint16_t>(s[lane] >> 16 * k);
        (i.detail ? rows[column + k][row] : rows[row][column + k]) = value;
      }
    }
    for (int row = 0; row < 8; ++row) {
      const int lane = 8 * q + row;
      if (reached.lanes >> lane & 1) std::memcpy(reached.data[lane], rows[row], 16);
    }
  }
}

// Lanes hold pairs of a row; they get those of the transposed matrix.
void TurnMatrix(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  uint32_t s[kLanes];
  std::memcpy(s, w.At<uint32_t>(i.args[1]), sizeof s);
  uint32_t* d = w.At<uint32_t>(i.args[0]);
  const auto element = [&](int row, int column) {
    return s[row * 4 + column / 2] >> 16 * (column % 2) & 0xffff;
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    const int row = lane / 4, column = lane % 4 * 2;
    if (mask >> lane & 1) d[lane] = element(column, row) | element(column + 1, row) << 16;
  }
}

void DecodeStoreMatrix(Decoder& d) {
  if (!d.Has("sync") || !d.Has("aligned") || !d.Has("m8n8")) d.Unknown();
  d.inst.count = d.Has("x1") ? 1 : d.Has("x2") ? 2 : d.Has("x4") ? 4 : 0;
  d.inst.detail = d.Has("trans");
  if (d.inst.count == 0 || !(d.Has("shared") || d.Has("shared::cta"))) d.Unknown();
  if (d.TakeType() != Type::kB16) d.Unknown();
  d.End();
  d.Operands(2);
  d.Address(d.operand(0));
  d.Vector(1, d.inst.count, Type::kB32, false);
  d.inst.space = Space::kShared;
  d.inst.pipe = kMemory;
  d.inst.run = StoreMatrix;
}

void DecodeTurnMatrix(Decoder& d) {
  if (!d.Has("sync") || !d.Has("aligned") || !d.Has("m8n8") || !d.Has("trans")) d.Unknown();
  if (d.TakeType() != Type::kB16) d.Unknown();
  d.End();
  d.Operands(2);
  d.Push(d.Target(d.operand(0), Type::kB32));
  d.Push(d.Source(1, Type::kB32));
  d.inst.pipe = kMemory;
  d.inst.run = TurnMatrix;
}

}  // namespace

void AddFragments(Table* table) {
  (*table)["ldmatrix"] = DecodeLoadMatrix;
  (*table)["stmatrix"] = DecodeStoreMatrix;
  (*table)["movmatrix"] = DecodeTurnMatrix;
}

}  // namespace ptx
