// Ranges that bulk copies reach: checked as one, whatever their size.
#pragma once
#include "decoder.h"
#include "memory.h"

namespace ptx {

// Whether a lane may access bytes of shared or global memory that are aligned to `align`; reports.
bool SharedRange(Warp& warp, const Inst& inst, int lane, uint64_t address, uint32_t bytes,
                 uint32_t align);
bool GlobalRange(Warp& warp, const Inst& inst, int lane, uint64_t address, uint32_t bytes, Use use,
                 uint32_t align = 16);

void DecodeBulk(Decoder& d);    // cp.async.bulk
void DecodeTensor(Decoder& d);  // cp.async.bulk.tensor

// A copy from bytes of shared memory begins.
void BeginStore(Warp& warp, const Inst& inst, int lane, uint64_t from, uint32_t bytes,
                const std::vector<Piece>& pieces, Combine combine = nullptr);

Combine TakeCombine(Decoder& d);  // the operation and type of cp.reduce.async.bulk

// Perform bulk copies to global memory of `lanes` whose group has a number below the lane's limit.
void DeliverStores(Warp& warp, Mask lanes, const uint32_t* limit);

}  // namespace ptx
