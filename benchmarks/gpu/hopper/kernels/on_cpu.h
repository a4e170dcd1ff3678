// The functions of `ptx.cuh` and the products on a CPU: every GPU thread of a cluster is a thread.
//
// Products are done when they are asked for, so it shows wrong layouts, counts of bytes, arrivals
// and parities, and threads that wait for ever. It does not show a missing fence or wait.
#pragma once
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define DEVICE inline

typedef uint32_t u32;
typedef unsigned long long u64;
typedef uint16_t u16;
typedef uint8_t u8;
typedef _Float16 __half;

struct float4 {
  float x, y, z, w;
};
struct uint4 {
  u32 x, y, z, w;
};
struct uint2 {
  u32 x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};

// Activations [rows, columns], read in boxes of box_rows x 64.
struct TensorMap {
  const __half* values;
  u64 rows, columns, box_rows;
};

constexpr int kSharedBytes = 232448, kMostWarps = 32;

struct Barrier {
  int arrivals = 0, pending = 0, phase = 0;
  long bytes = 0;
  void settle() {
    if (pending || bytes) return;
    phase ^= 1;
    pending = arrivals;
  }
};

struct Block {
  // What nobody wrote is no number.
  std::vector<u8> memory = std::vector<u8>(kSharedBytes, 0x7e);
  std::mutex mutex;
  std::map<u32, Barrier> barriers;
  std::unique_ptr<std::barrier<>> named[16], warps[kMostWarps];
  u32 exchanged[kMostWarps][32][4];
};

struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<std::barrier<>> barrier;
};

struct Index {
  int x;
};
inline thread_local Index threadIdx, blockIdx;
inline thread_local Block* block;
inline thread_local Cluster* cluster;
inline thread_local int rank_in_cluster;

[[noreturn]] inline void fail(const char* why) {
  fprintf(stderr, "thread %d of block %d: %s\n", threadIdx.x, blockIdx.x, why);
  abort();
}

template <class T>
T load(u32 at) {
  T v;
  memcpy(&v, &block->memory.at(at), sizeof(T));
  return v;
}
template <class T>
void store(u32 at, T v) {
  memcpy(&block->memory.at(at), &v, sizeof(T));
}

inline u32 shared_address(const void* p) { return (u32)((const u8*)p - block->memory.data()); }
inline uint4 load128(u32 at) { return load<uint4>(at); }
inline uint2 load64(u32 at) { return load<uint2>(at); }
inline u32 load32(u32 at) { return load<u32>(at); }
inline u32 load16(u32 at) { return load<u16>(at); }
inline void store16(u32 at, u32 v) { store(at, (u16)v); }
inline void store_zeros128(u32 at) { store(at, uint4{}); }
inline void store128(u32 at, float x, float y, float z, float w) { store(at, float4{x, y, z, w}); }
template <u32 kBit>
u32 take(u32 mask, u32& list) {
  if (!(mask & kBit)) return 0;
  list += 4;
  return load32(list - 4);
}

inline void barrier_init(u32 barrier, int arrivals) {
  std::lock_guard<std::mutex> held(block->mutex);
  block->barriers[barrier] = {arrivals, arrivals};
}
inline void barrier_init_fence() {}
inline void barrier_expect(u32 barrier, u32 bytes) {
  std::lock_guard<std::mutex> held(block->mutex);
  Barrier& b = block->barriers.at(barrier);
  b.bytes += bytes;
  b.pending--;
  b.settle();
}
inline void barrier_arrive(u32 barrier) {
  std::lock_guard<std::mutex> held(block->mutex);
  Barrier& b = block->barriers.at(barrier);
  if (b.pending-- <= 0) fail("more arrivals than its barrier has");
  b.settle();
}
inline void barrier_wait(u32 barrier, u32 parity) {
  for (long turn = 0; turn < 3000000; ++turn) {
    {
      std::lock_guard<std::mutex> held(block->mutex);
      if ((u32)block->barriers.at(barrier).phase != parity) return;
    }
    std::this_thread::yield();
  }
  fail("waits for ever");
}

inline void copy_bulk(u32 to, const void* from, u32 bytes, u32 barrier) {
  if (bytes % 16 || to % 16 || (u64)from % 16) fail("a copy of unaligned bytes");
  std::lock_guard<std::mutex> held(block->mutex);
  memcpy(&block->memory.at(to), from, bytes);
  Barrier& b = block->barriers.at(barrier);
  b.bytes -= bytes;
  b.settle();
}
// Where half `column` of `row` lies in a matrix of 64 columns, in the swizzle of 128 bytes.
inline u32 swizzled(u32 base, int row, int column) {
  const u32 at = base + row * 128 + column * 2;
  return at ^ (((at >> 7) & 7) << 4);
}
inline void copy_box(u32 to, const TensorMap* map, int column, int row, u32 barrier) {
  std::lock_guard<std::mutex> held(block->mutex);
  for (int r = 0; r < (int)map->box_rows; ++r)
    for (int c = 0; c < 64; ++c) {
      const bool inside = row + r < (int)map->rows && column + c < (int)map->columns;
      store(swizzled(to, r, c),
            inside ? map->values[(row + r) * map->columns + column + c] : (__half)0);
    }
  Barrier& b = block->barriers.at(barrier);
  b.bytes -= map->box_rows * 128;
  b.settle();
}
inline void prefetch_map(const TensorMap*) {}

inline void warp_sync() { block->warps[threadIdx.x / 32]->arrive_and_wait(); }
inline void products_begin() {}
inline void products_commit() {}
template <int kPending>
void products_wait() {
  warp_sync();
}
inline void stores_before_products() {}
inline void barrier_sync(int id, int threads) {
  {
    std::lock_guard<std::mutex> held(block->mutex);
    if (!block->named[id]) block->named[id].reset(new std::barrier<>(threads));
  }
  block->named[id]->arrive_and_wait();
}
inline void __syncthreads() { block->named[0]->arrive_and_wait(); }

inline void cluster_sync() { cluster->barrier->arrive_and_wait(); }
inline u32 cluster_rank() { return rank_in_cluster; }
inline float4 cluster_load128(u32 at, u32 rank) {
  float4 v;
  memcpy(&v, &cluster->blocks.at(rank)->memory.at(at), sizeof(v));
  return v;
}

// What each lane of the warp gives, until `warp_sync`.
inline u32 (*give(u32 a, u32 b = 0, u32 c = 0, u32 d = 0))[4] {
  u32(*lanes)[4] = block->exchanged[threadIdx.x / 32];
  u32* mine = lanes[threadIdx.x % 32];
  mine[0] = a, mine[1] = b, mine[2] = c, mine[3] = d;
  warp_sync();
  return lanes;
}
inline u32 shift_in_fours(u32 v, int by) {
  const int lane = threadIdx.x % 32;
  const u32 got = lane % 4 >= by ? give(v)[lane - by][0] : give(v)[lane][0];
  warp_sync();
  return got;
}
inline u32 transpose8x8(u32 v) {
  const u32(*lanes)[4] = give(v);
  const int lane = threadIdx.x % 32;
  u32 got = 0;
  for (int e = 0; e < 2; ++e) {
    const int row = lane / 4, column = 2 * (lane % 4) + e;
    got |= ((lanes[column * 4 + row / 2][0] >> (16 * (row & 1))) & 0xffff) << (16 * e);
  }
  warp_sync();
  return got;
}
inline u32 halves(float low, float high) {
  const __half both[2] = {(__half)low, (__half)high};
  u32 v;
  memcpy(&v, both, 4);
  return v;
}
inline void hold(u32 (&)[8]) {}

// A value of the matrix that a descriptor names; it may begin inside the swizzle.
inline float value_of(u64 descriptor, int row, int column) {
  const u32 begin = (u32)(descriptor & 0x3fff) << 4;
  return (float)load<__half>(swizzled(begin, row, column));
}
// Add to each sum of a lane what `term(feature of the warp, row, k)` gives for 0 <= k < columns.
template <int kSums, class Term>
void add(float (&sums)[kSums], int columns, Term term) {
  const int lane = threadIdx.x % 32;
  for (int j = 0; j < kSums / 4; ++j)
    for (int e = 0; e < 4; ++e)
      for (int k = 0; k < columns; ++k)
        sums[4 * j + e] += term(lane / 4 + 8 * (e >> 1), 8 * j + 2 * (lane % 4) + (e & 1), k);
}
template <int kSums>
void product(float (&sums)[kSums], u64 w, u64 x) {
  const int warp = threadIdx.x % 128 / 32;
  add(sums, 16,
      [&](int f, int n, int k) { return value_of(w, 16 * warp + f, k) * value_of(x, n, k); });
}
template <int kSums>
void product(float (&sums)[kSums], u32 a0, u32 a1, u32 a2, u32 a3, u64 x) {
  const u32(*lanes)[4] = give(a0, a1, a2, a3);
  add(sums, 16, [&](int f, int n, int k) {
    const u32 both = lanes[f % 8 * 4 + k % 8 / 2][2 * (k / 8) + f / 8];
    const u16 bits = both >> (16 * (k & 1));
    __half h;
    memcpy(&h, &bits, 2);
    return (float)h * value_of(x, n, k);
  });
  warp_sync();
}
template <int kSums>
void sparse_product(float (&sums)[kSums], u64 w, u64 x, u32 places) {
  const int warp = threadIdx.x % 128 / 32;
  const u32(*lanes)[4] = give(places);
  add(sums, 16, [&](int f, int n, int k) {
    const int four = k / 2;  // 4 columns, of which two values are kept
    const u32 nibble = lanes[f % 8 * 4 + four / 4][0] >> (16 * (f / 8) + 4 * (four % 4));
    const int column = 4 * four + ((nibble >> (2 * (k & 1))) & 3);
    return value_of(w, 16 * warp + f, k) * value_of(x, n, column);
  });
  warp_sync();
}

// Run a kernel body, cluster by cluster.
template <class S, class Kernel>
void run(int clusters, Kernel kernel) {
  constexpr int kThreads = S::kThreads;
  for (int c = 0; c < clusters; ++c) {
    Cluster made;
    made.barrier.reset(new std::barrier<>(kThreads * S::kParts));
    for (int r = 0; r < S::kParts; ++r) {
      made.blocks.emplace_back(new Block);
      Block& b = *made.blocks.back();
      b.named[0].reset(new std::barrier<>(kThreads));
      for (int w = 0; w < kThreads / 32; ++w) b.warps[w].reset(new std::barrier<>(32));
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads * S::kParts; ++i)
      threads.emplace_back([&, i] {
        rank_in_cluster = i / kThreads;
        threadIdx = {i % kThreads};
        blockIdx = {c * S::kParts + rank_in_cluster};
        cluster = &made;
        block = made.blocks[rank_in_cluster].get();
        kernel(block->memory.data());
      });
    for (std::thread& thread : threads) thread.join();
  }
}
