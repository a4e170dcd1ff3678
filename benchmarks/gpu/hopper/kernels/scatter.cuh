// Balanced weights, kKeep of each 32 columns, scattered into tiles in shared memory.
//
// A thread owns one bank of one feature: thread t of a warpgroup has feature t / 2, bank t % 2. A
// piece holds all values, then all places: a byte each, the column of the 64 in the swizzle. The
// packer orders a thread's values so that 32 lanes' stores meet few banks of shared memory twice.
// Two tiles alternate: the products of one are under way while the other is written.
// kKeep = 8: a thread's 8 values and 8 places lie together, and it clears its bank by 4 stores.
// kKeep < 8: values lie by their number, then by thread, places in 4 bytes; a thread clears the
// places that it wrote two steps ago.
#pragma once
#include "frame.cuh"

template <class S, int kKeep>
struct Scatter {
  static constexpr bool kWide = kKeep == 8;
  static_assert(kWide || kKeep <= 4, "places lie in 4 or 8 bytes");
  static constexpr int kPlaces = S::kGroups * 256 * kKeep;  // where places begin in a piece
  static constexpr int kWeightBytes = kPlaces + S::kGroups * 128 * (kWide ? 8 : 4);
  static constexpr int kBoxes = 1, kScratchBytes = 2 * S::kGroups * 8192;
  static constexpr u32 kNone = 0xffffffffu;

  DEVICE static u32 bank_chunk(u32 feature, int chunk) {
    const int t = threadIdx.x % 128, row = t / 2;
    return feature + ((((t % 2) * 4 + chunk) ^ (row & 7)) << 4);
  }

  DEVICE static void wide(u32 stage, u32 feature) {
    const int thread = threadIdx.x;
    const uint4 v = load128(stage + thread * 16);
    const uint2 p = load64(stage + kPlaces + thread * 8);
    const u32 values[4] = {v.x, v.y, v.z, v.w}, places[2] = {p.x, p.y};
#pragma unroll
    for (int chunk = 0; chunk < 4; ++chunk) store_zeros128(bank_chunk(feature, chunk));
#pragma unroll
    for (int e = 0; e < 8; ++e)
      store16(feature + ((places[e >> 2] >> (8 * (e & 3))) & 0xffu) * 2,
              values[e >> 1] >> (16 * (e & 1)));
  }

  // Return the places written, for the step after next.
  DEVICE static u32 narrow(u32 stage, u32 feature, u32 old) {
    const int group = threadIdx.x / 128, t = threadIdx.x % 128;
    u32 values[kKeep];
#pragma unroll
    for (int e = 0; e < kKeep; ++e)
      values[e] = load16(stage + group * 256 * kKeep + e * 256 + t * 2);
    const u32 places = load32(stage + kPlaces + threadIdx.x * 4);
    if (old != kNone) {
#pragma unroll
      for (int e = 0; e < kKeep; ++e) store16(feature + ((old >> (8 * e)) & 0xffu) * 2, 0);
    }
#pragma unroll
    for (int e = 0; e < kKeep; ++e) store16(feature + ((places >> (8 * e)) & 0xffu) * 2, values[e]);
    return places;
  }

  DEVICE static void consume(Ring<S, Scatter>& ring, int steps, float (&sums)[S::kRows / 2]) {
    const int group = threadIdx.x / 128, row = threadIdx.x % 128 / 2;
    const u32 tiles = ring.memory.scratch() + group * 8192;
    u32 before_last = kNone, last = kNone;  // places written two steps ago, and one
    barrier_sync(1 + group, 128);           // the products of an item before are done everywhere
#pragma unroll
    for (int half = 0; half < 2; ++half)
      for (int chunk = 0; chunk < 4; ++chunk)
        store_zeros128(bank_chunk(tiles + half * S::kGroups * 8192 + row * 128, chunk));
    for (int i = 0; i < steps; ++i, ring.next()) {
      const u32 stage = ring.wait();
      const u32 tile = tiles + (i & 1) * S::kGroups * 8192, feature = tile + row * 128;
      if constexpr (S::kLeaveOut != kDecoding) {
        if constexpr (kWide) {
          wide(stage, feature);
        } else {
          const u32 written = narrow(stage, feature, before_last);
          before_last = last;
          last = written;
        }
      }
      // All threads of the warpgroup have written, and the products of the other tile are done:
      // the next step may write it.
      stores_before_products();
      products_wait<0>();
      barrier_sync(1 + group, 128);
      ring.release_previous();
      if constexpr (S::kLeaveOut != kProducts) {
        const u64 w = descriptor(tile), x = ring.activations();
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; ++k) product(sums, w + 2 * k, x + 2 * k);
        products_commit();
      }
    }
  }
};
