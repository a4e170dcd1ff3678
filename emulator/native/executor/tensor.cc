// cp.async.bulk.tensor: boxes of a tensor that a tensor map describes, into shared memory.
#include <algorithm>

#include "bulk.h"
#include "lanes.h"
#include "swizzle.h"
#include "tensor_map.h"

namespace ptx {

namespace {

constexpr uint32_t kChunk = 16;

[[noreturn]] void Refuse(const std::string& what) {
  throw std::runtime_error("a tensor map: " + what);
}

}  // namespace

TensorMap Encoded(TensorMap map) {
  constexpr uint32_t kMostBox = 256;
  if (map.rank < 1 || map.rank > kMostDimensions) Refuse("it has 1 to 5 dimensions");
  if (map.bytes != 1 && map.bytes != 2 && map.bytes != 4 && map.bytes != 8)
    Refuse("elements have 1, 2, 4 or 8 bytes");
  if (map.base % kChunk != 0) Refuse("the tensor must begin at a multiple of 16 bytes");
  for (int d = 0; d < map.rank; ++d) {
    if (map.box[d] == 0 || map.box[d] > kMostBox) Refuse("a box has 1 to 256 elements each way");
    if (d > 0 && map.strides[d - 1] % kChunk != 0) Refuse("strides are multiples of 16 bytes");
  }
  const uint32_t row = map.box[0] * map.bytes;
  if (row % kChunk != 0) Refuse("a row of a box is a multiple of 16 bytes");
  if (map.swizzle > 3) Refuse("swizzles are 0, 1, 2 or 3");
  if (map.swizzle > 0 && row > 16u << map.swizzle)
    Refuse("a row of a box is as wide as its swizzle");
  map.mark = kTensorMapMark;
  return map;
}

namespace {

TensorMap MapAt(Warp& w, const Inst& i, int lane, uint64_t address) {
  TensorMap map{};
  const std::vector<char>& params = w.block->launch->params;
  if (address >= kParamWindow && address - kParamWindow + sizeof map <= params.size()) {
    std::memcpy(&map, params.data() + (address - kParamWindow), sizeof map);
  } else if (GlobalRange(w, i, lane, address, kTensorMapBytes, Use::kRead)) {
    std::memcpy(&map, reinterpret_cast<const char*>(address), sizeof map);
  }
  if (map.mark != kTensorMapMark) Refuse("it was not encoded for this executor");
  return map;
}

struct Box {
  const TensorMap& map;
  int64_t at[kMostDimensions];  // of its first element
  uint64_t shared;
  Use use;  // of the tensor
  std::vector<Piece> pieces;
  uint32_t row() const { return map.box[0] * map.bytes; }
  uint32_t bytes() const {
    uint32_t all = row();
    for (int d = 1; d < map.rank; ++d) all *= map.box[d];
    return all;
  }
};

// One row of a box, from `from` on if the row is in the tensor at all.
void AddRow(Box* box, uint64_t shared, bool inside, uint64_t from) {
  const TensorMap& map = box->map;
  const auto size = static_cast<int64_t>(map.sizes[0]);
  for (uint32_t chunk = 0; chunk < box->row(); chunk += kChunk) {
    const uint64_t place = Swizzled(shared + chunk, map.swizzle);
    for (uint32_t byte = 0; byte < kChunk; byte += map.bytes) {
      const int64_t x = box->at[0] + (chunk + byte) / map.bytes;
      const bool there = inside && x >= 0 && x < size;
      auto* data = reinterpret_cast<char*>(from + x * map.bytes);
      Piece* last = byte > 0 ? &box->pieces.back() : nullptr;
      if (last != nullptr && (last->global != nullptr) == there) last->bytes += map.bytes;
      else box->pieces.push_back({place + byte, there ? data : nullptr, map.bytes});
    }
  }
}

// Check what a row reads of the tensor.
bool RowRange(Warp& w, const Inst& i, int lane, const Box& box, uint64_t from) {
  const int64_t first = std::max<int64_t>(box.at[0], 0);
  const int64_t end = std::min<int64_t>(box.at[0] + box.map.box[0], box.map.sizes[0]);
  if (first >= end) return true;
  const auto bytes = static_cast<uint32_t>((end - first) * box.map.bytes);
  return GlobalRange(w, i, lane, from + first * box.map.bytes, bytes, box.use, box.map.bytes);
}

void AddRows(Warp& w, const Inst& i, int lane, Box* box) {
  const TensorMap& map = box->map;
  uint64_t rows = 1;
  for (int d = 1; d < map.rank; ++d) rows *= map.box[d];
  for (uint64_t row = 0; row < rows; ++row) {
    uint64_t from = map.base, rest = row;
    bool inside = true;
    for (int d = 1; d < map.rank; ++d) {
      const int64_t at = box->at[d] + static_cast<int64_t>(rest % map.box[d]);
      rest /= map.box[d];
      inside = inside && at >= 0 && at < static_cast<int64_t>(map.sizes[d]);
      from += at * map.strides[d - 1];
    }
    inside = inside && RowRange(w, i, lane, *box, from);
    AddRow(box, box->shared + row * box->row(), inside, from);
  }
}

// The box that a lane names, by the address of its map and coordinates from argument `at` on; its
// pieces are there if it may be copied.
Box BoxOf(Warp& w, const Inst& i, int lane, const TensorMap& map, int at, uint64_t shared,
          Use use) {
  constexpr uint32_t kAlign = 128;
  if (map.rank != i.count)
    Refuse("it has " + std::to_string(map.rank) + " dimensions, the copy " +
           std::to_string(i.count));
  Box box{map, {}, shared, use, {}};
  for (int d = 0; d < map.rank; ++d) box.at[d] = w.At<int32_t>(i.args[at + d])[lane];
  if (SharedRange(w, i, lane, shared, box.bytes(), kAlign)) AddRows(w, i, lane, &box);
  return box;
}

// Arguments: shared address (2), map (2), mbarrier (2), coordinates.
void ToShared(Warp& w, const Inst& i, Mask mask) {
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const TensorMap map = MapAt(w, i, l, LaneAddress(w, i, 2, l));
    const Box box = BoxOf(w, i, l, map, 6, InShared(LaneAddress(w, i, 0, l)), Use::kRead);
    if (box.pieces.empty()) continue;
    BeginCopy(w, i, l, InShared(LaneAddress(w, i, 4, l)), box.pieces);
  }
}

// Arguments: map (2), shared address (2), coordinates.
void ToGlobal(Warp& w, const Inst& i, Mask mask) {
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const TensorMap map = MapAt(w, i, l, LaneAddress(w, i, 0, l));
    const Box box = BoxOf(w, i, l, map, 4, InShared(LaneAddress(w, i, 2, l)), Use::kWrite);
    if (box.pieces.empty()) continue;
    BeginStore(w, i, l, box.shared, box.bytes(), box.pieces);
  }
}

}  // namespace

void DecodeTensor(Decoder& d) {
  const char* const ranks[] = {"1d", "2d", "3d", "4d", "5d"};
  for (uint8_t rank = 1; rank <= kMostDimensions; ++rank)
    if (d.Has(ranks[rank - 1])) d.inst.count = rank;
  const bool stores = d.Has("bulk_group");
  const bool shared = d.Has("shared::cta") || (!stores && d.Has("shared::cluster"));
  if (!shared || !d.Has("global")) d.Unknown();
  if (!stores && !d.Has("mbarrier::complete_tx::bytes")) d.Unknown();
  d.Has("tile");
  const size_t addresses = stores ? 2 : 3;
  const bool hint = d.Has("L2::cache_hint");
  d.End();
  d.Operands(addresses + hint);
  const std::vector<Operand>& coordinates = d.operand(stores ? 0 : 1).parts;
  if (coordinates.size() != d.inst.count) d.Unknown();
  for (size_t i = 0; i < addresses; ++i) d.NextAddress(d.operand(i));
  for (const Operand& one : coordinates) d.Push(d.Source(one, Type::kS32));
  d.inst.run = stores ? ToGlobal : ToShared;
}

}  // namespace ptx
