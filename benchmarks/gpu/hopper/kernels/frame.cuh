// The frame that all designs share: y[N, M] = x[N, K] * weights[M, K]^T, fp16, sums in fp32.
//
// A thread block has kGroups warpgroups of consumers, of 64 features each, and one warp that
// produces. One lane of it copies a step's packed weights and its box of activations into a ring of
// kStages; copies arrive at the stage's barrier `full`. Consumers wait for it, decode, multiply,
// and arrive at `empty` (a lane of each warp) when their products no longer read the stage. kParts
// thread blocks, a cluster, share the steps of a tile and add their sums through the cluster's
// shared memory, each every kParts-th group of eight rows, in a fixed order.
#pragma once
// Behind `ptx.cuh` and the products, or behind `on_cpu.h`: see source.py, which joins the files.

// What an ablation leaves out, to learn what binds; its results are wrong.
enum LeaveOut { kNothing, kDecoding, kProducts, kActivations };

// A configuration: kRows of activations in a tile.
template <int kGroups_, int kRows_, int kStages_, int kParts_, LeaveOut kLeaveOut_ = kNothing>
struct Shape {
  static constexpr int kGroups = kGroups_, kRows = kRows_, kStages = kStages_, kParts = kParts_;
  static constexpr LeaveOut kLeaveOut = kLeaveOut_;
  static constexpr int kThreads = kGroups * 128 + 32;
  static constexpr int kBoxBytes = kRows * 128;  // 64 columns of kRows activations
};

struct Arguments {
  const u8* weights;        // packed, Design::kWeightBytes a piece: one step of one tile
  const int* column_tiles;  // the columns of each piece, in steps, or null: 0, 1, ...
  const int4* items;        // {tile of features, tile of rows, first piece, pieces}, or null: all
  const int* first_items;   // of each unit (a block or cluster) and behind the last, or null: one
  __half* y;
  int features, rows;
  int steps, row_tiles;  // where items is null
};

struct Item {
  int feature_tile, row_tile, first, pieces;
};
DEVICE Item item_of(const Arguments& a, int i) {
  if (a.items) {
    const int4 v = a.items[i];
    return {v.x, v.y, v.z, v.w};
  }
  const int tile = i / a.row_tiles;
  return {tile, i % a.row_tiles, tile * a.steps, a.steps};
}

// A matrix of 64 columns in the swizzle of 128 bytes: what a product reads from shared memory.
DEVICE u64 descriptor(u32 at) {
  return (u64)((at & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

// Where the parts of shared memory are, from a multiple of 1024 on.
template <class S, class Design>
struct Memory {
  static constexpr int kActivations = (Design::kWeightBytes + 1023) / 1024 * 1024;
  static constexpr int kStage = kActivations + Design::kBoxes * S::kBoxBytes;
  u32 base;
  DEVICE u32 stage(int slot) const { return base + slot * kStage; }
  DEVICE u32 scratch() const { return base + S::kStages * kStage; }
  DEVICE u32 full(int slot) const { return scratch() + Design::kScratchBytes + slot * 8; }
  DEVICE u32 empty(int slot) const { return full(S::kStages) + slot * 8; }
};

// A consumer's view of the ring.
template <class S, class Design>
struct Ring {
  Memory<S, Design> memory;
  int slot = 0;
  u32 phase = 0;
  int previous = -1;  // a slot whose products may still be under way
  DEVICE u32 wait() const {
    barrier_wait(memory.full(slot), phase);
    return memory.stage(slot);
  }
  DEVICE u64 activations() const {
    return descriptor(memory.stage(slot) + Memory<S, Design>::kActivations);
  }
  // Give the previous slot back: all products but those of this one are done.
  DEVICE void release_previous() {
    if (previous >= 0 && threadIdx.x % 32 == 0) barrier_arrive(memory.empty(previous));
    previous = slot;
  }
  DEVICE void next() {
    if (++slot == S::kStages) {
      slot = 0;
      phase ^= 1u;
    }
  }
};

template <class S, class Design>
DEVICE void produce(const Arguments& a, const TensorMap& map, Memory<S, Design> memory, int part,
                    int begin, int end) {
  constexpr int kBytes = S::kLeaveOut == kActivations ? 0 : Design::kBoxes * S::kBoxBytes;
  prefetch_map(&map);
  int step = 0;
  for (int i = begin; i < end; ++i) {
    const Item item = item_of(a, i);
    const int last = item.pieces * (part + 1) / S::kParts;
    for (int j = item.pieces * part / S::kParts; j < last; ++j, ++step) {
      const int slot = step % S::kStages;
      const u32 stage = memory.stage(slot), full = memory.full(slot);
      if (step >= S::kStages) barrier_wait(memory.empty(slot), ((step / S::kStages) & 1) ^ 1);
      const int piece = item.first + j, column_tile = a.column_tiles ? a.column_tiles[piece] : j;
      barrier_expect(full, Design::kWeightBytes + kBytes);
      copy_bulk(stage, a.weights + (size_t)piece * Design::kWeightBytes, Design::kWeightBytes,
                full);
#pragma unroll
      for (int box = 0; box < (kBytes ? Design::kBoxes : 0); ++box)
        copy_box(stage + Memory<S, Design>::kActivations + box * S::kBoxBytes, &map,
                 (column_tile * Design::kBoxes + box) * 64, item.row_tile * S::kRows, full);
    }
  }
}

// Write eight rows of y: a transposed fragment, so that neighbouring lanes write one line.
DEVICE void write8(const Arguments& a, int row, int feature, float s0, float s1, float s2,
                   float s3) {
  const u32 low = transpose8x8(halves(s0, s1)), high = transpose8x8(halves(s2, s3));
  const int lane = threadIdx.x % 32, n = row + lane / 4;
  if (n < a.rows) {
    u32* to = (u32*)(a.y + (size_t)n * a.features + feature + 2 * (lane % 4));
    to[0] = low;
    to[4] = high;
  }
}

template <class S, class Design>
DEVICE void write(const Arguments& a, const Item& item, u32 base, int part,
                  float (&sums)[S::kRows / 2]) {
  const int thread = threadIdx.x;
  const int feature = item.feature_tile * S::kGroups * 64 + thread / 32 * 16;
  const int row = item.row_tile * S::kRows;
  if (S::kParts == 1) {
#pragma unroll
    for (int j = 0; j < S::kRows / 8; ++j)
      write8(a, row + 8 * j, feature, sums[4 * j], sums[4 * j + 1], sums[4 * j + 2],
             sums[4 * j + 3]);
    return;
  }
  // The ring holds the sums now: no copy is under way, as each cluster has a single item.
  barrier_sync(7, S::kGroups * 128);
#pragma unroll
  for (int j = 0; j < S::kRows / 8; ++j)
    store128(base + (u32)(j * S::kGroups * 128 + thread) * 16, sums[4 * j], sums[4 * j + 1],
             sums[4 * j + 2], sums[4 * j + 3]);
  cluster_sync();
  for (int j = part; j < S::kRows / 8; j += S::kParts) {
    const u32 at = base + (u32)(j * S::kGroups * 128 + thread) * 16;
    float4 v = cluster_load128(at, 0);
#pragma unroll
    for (int p = 1; p < S::kParts; ++p) {
      const float4 u = cluster_load128(at, p);
      v.x += u.x;
      v.y += u.y;
      v.z += u.z;
      v.w += u.w;
    }
    write8(a, row + 8 * j, feature, v.x, v.y, v.z, v.w);
  }
}

template <class S, class Design>
DEVICE void multiply(const Arguments& a, const TensorMap& map, u8* raw) {
  const Memory<S, Design> memory{(shared_address(raw) + 1023u) & ~1023u};
  const int warp = threadIdx.x / 32;
  const int part = S::kParts > 1 ? cluster_rank() : 0, unit = blockIdx.x / S::kParts;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < S::kStages; ++slot) {
      barrier_init(memory.full(slot), 1);
      barrier_init(memory.empty(slot), S::kGroups * 4);
    }
    barrier_init_fence();
  }
  if (S::kParts > 1) cluster_sync();
  else __syncthreads();
  const int begin = a.first_items ? a.first_items[unit] : unit;
  const int end = a.first_items ? a.first_items[unit + 1] : unit + 1;
  if (warp == S::kGroups * 4) {
    if (threadIdx.x % 32 == 0) produce<S, Design>(a, map, memory, part, begin, end);
    warp_sync();
    if (S::kParts > 1) cluster_sync();
  } else {
    Ring<S, Design> ring{memory};
    for (int i = begin; i < end; ++i) {
      const Item item = item_of(a, i);
      const int steps = item.pieces * (part + 1) / S::kParts - item.pieces * part / S::kParts;
      float sums[S::kRows / 2];
#pragma unroll
      for (int j = 0; j < S::kRows / 2; ++j) sums[j] = 0.f;
      ring.previous = -1;
      Design::consume(ring, steps, sums);
      products_wait<0>();
      ring.release_previous();
      write<S, Design>(a, item, memory.base, part, sums);
    }
  }
  // No block may end while others still read its sums.
  if (S::kParts > 1) cluster_sync();
}
