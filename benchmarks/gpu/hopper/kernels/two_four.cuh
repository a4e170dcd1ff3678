// 2:4 weights on sparse tensor cores (wgmma.sp), in steps of 128 columns.
//
// A piece: kGroups tiles of 64 features x 64 kept values in the swizzle of 128 bytes, then
// metadata: for each warpgroup, product of 32 columns, warp, feature r of 8, and half of the 32
// columns, a word with 16 bits of feature r and, above them, those of feature r + 8: a nibble for
// each 4 columns, the places of its two values. A lane gives the word of r = lane / 4 and half lane
// % 2.
#pragma once
#include "frame.cuh"

template <class S>
struct TwoFour {
  static constexpr int kWeightBytes = S::kGroups * (8192 + 1024), kBoxes = 2, kScratchBytes = 0;

  DEVICE static void consume(Ring<S, TwoFour>& ring, int steps, float (&sums)[S::kRows / 2]) {
    const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int mine = warp * 16 + lane / 4 * 2 + lane % 2;
    for (int i = 0; i < steps; ++i, ring.next()) {
      const u32 stage = ring.wait();
      u32 places[4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
        places[k] = load32(stage + S::kGroups * 8192 + group * 1024 + (k * 64 + mine) * 4);
      const u64 w = descriptor(stage + group * 8192), x = ring.activations();
      products_begin();
#pragma unroll
      for (int k = 0; k < 4; ++k)
        sparse_product(sums, w + 2 * k, x + (k >> 1) * (S::kBoxBytes >> 4) + 4 * (k & 1),
                       places[k]);
      products_commit();
      products_wait<1>();
      ring.release_previous();
    }
  }
};
