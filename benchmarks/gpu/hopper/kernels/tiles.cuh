// Dense weights, and kept blocks of 64 * kGroups features x 64 columns, multiplied as they lie.
//
// A piece: kGroups tiles of 64 features x 64 columns in the swizzle of 128 bytes. Blocks differ
// from dense weights by `column_tiles` and by their counts of pieces alone.
#pragma once
#include "frame.cuh"

template <class S>
struct Tiles {
  static constexpr int kWeightBytes = S::kGroups * 8192, kBoxes = 1, kScratchBytes = 0;

  DEVICE static void consume(Ring<S, Tiles>& ring, int steps, float (&sums)[S::kRows / 2]) {
    const int group = threadIdx.x / 128;
    for (int i = 0; i < steps; ++i, ring.next()) {
      const u32 stage = ring.wait();
      const u64 w = descriptor(stage + group * 8192), x = ring.activations();
      if constexpr (S::kLeaveOut != kProducts) {
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; ++k) product(sums, w + 2 * k, x + 2 * k);
        products_commit();
        products_wait<1>();
      }
      ring.release_previous();
    }
  }
};
