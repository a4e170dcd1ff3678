// Balanced weights, kKeep of each 32 columns, decoded into registers by pairs of columns.
//
// A piece has, for each warp of 16 features, 64 bytes of masks and then lists. A lane holds what
// the product wants of it: pairs of columns 2q, 2q + 1 of two features (r and r + 8, r = lane / 4,
// q = lane % 4), in 4 registers of 2 features for each bank of 32. Its mask of 16 bits says which
// pairs hold a kept value, a nibble for each bank and feature. Pairs lie in 4 lists of a feature
// row (bank 0: r, r + 8; bank 1: r, r + 8), kKeep words each, the lanes of four one after the
// other; so a lane begins behind what those before it take. A pair with one kept value has a zero
// beside it.
#pragma once
#include "frame.cuh"

template <class S, int kKeep>
struct Pairs {
  static constexpr int kWarpBytes = 64 + 128 * kKeep;
  static constexpr int kWeightBytes = S::kGroups * 4 * kWarpBytes, kBoxes = 1, kScratchBytes = 0;

  // What a lane decodes by: its mask, and where its part of each list begins, a nibble each.
  struct Lane {
    u32 mask, begins, lists;
  };

  DEVICE static Lane lane_of(u32 masks) {
    const int lane = threadIdx.x % 32, q = lane & 3;
    const u32 mask = load16(masks + lane * 2);
    u32 count = mask - ((mask >> 1) & 0x5555u);
    count = (count & 0x3333u) + ((count >> 2) & 0x3333u);
    u32 begins = count, before = shift_in_fours(begins, 1);
    if (q >= 1) begins += before;
    before = shift_in_fours(begins, 2);
    if (q >= 2) begins += before;
    return {mask, begins - count, masks + 64 + lane / 4 * kKeep * 4};
  }

  // Decode one bank of one feature row into every other register of `a`.
  template <int kList>
  DEVICE static void decode(u32 (&a)[8], const Lane& lane) {
    u32 from = lane.lists + kList * 8 * kKeep * 4 + ((lane.begins >> (4 * kList)) & 0xfu) * 4;
    a[0 + (kList & 1)] = take<1u << (4 * kList)>(lane.mask, from);
    a[2 + (kList & 1)] = take<2u << (4 * kList)>(lane.mask, from);
    a[4 + (kList & 1)] = take<4u << (4 * kList)>(lane.mask, from);
    a[6 + (kList & 1)] = take<8u << (4 * kList)>(lane.mask, from);
  }

  // Multiply one bank, two products of 16 columns.
  DEVICE static void multiply(float (&sums)[S::kRows / 2], u32 (&a)[8], u64 x) {
    products_begin();
    product(sums, a[0], a[1], a[2], a[3], x);
    product(sums, a[4], a[5], a[6], a[7], x + 2);
    products_commit();
  }

  // The second bank is decoded while the first one is multiplied.
  DEVICE static void consume(Ring<S, Pairs>& ring, int steps, float (&sums)[S::kRows / 2]) {
    constexpr bool decodes = S::kLeaveOut != kDecoding;
    u32 first[8], second[8];
    for (int i = 0; i < steps; ++i, ring.next()) {
      const u32 stage = ring.wait();
      const Lane lane = lane_of(stage + threadIdx.x / 32 * kWarpBytes);
      const u64 x = ring.activations();
      if constexpr (decodes) {
        decode<0>(first, lane);
        decode<1>(first, lane);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) first[e] = second[e] = lane.mask;
      }
      if constexpr (S::kLeaveOut == kProducts) {
        hold(first);
        decode<2>(second, lane);
        decode<3>(second, lane);
        hold(second);
        ring.release_previous();
      } else {
        multiply(sums, first, x);
        products_wait<1>();
        ring.release_previous();
        if constexpr (decodes) {
          decode<2>(second, lane);
          decode<3>(second, lane);
        }
        multiply(sums, second, x + 4);
        products_wait<1>();
      }
    }
  }
};
