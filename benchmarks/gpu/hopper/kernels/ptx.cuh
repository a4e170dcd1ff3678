// Instructions of Hopper that CUDA C++ has no names for, one function each; addresses are those of
// shared memory. `on_cpu.h` holds the same functions for a CPU.
#pragma once
#include <cuda_fp16.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;

// A tensor map: how a copy reads the activations [rows, columns], as the driver encodes it.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

#define DEVICE __device__ __forceinline__

// Shared memory.
DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE uint4 load128(u32 at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at));
  return v;
}
DEVICE uint2 load64(u32 at) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at));
  return v;
}
DEVICE u32 load32(u32 at) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
  return v;
}
DEVICE u32 load16(u32 at) {
  u16 v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at));
  return v;
}
DEVICE void store16(u32 at, u32 v) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"((u16)v) : "memory");
}
DEVICE void store_zeros128(u32 at) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(at), "r"(0) : "memory");
}
DEVICE void store128(u32 at, float x, float y, float z, float w) {
  asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(at), "f"(x), "f"(y), "f"(z), "f"(w)
               : "memory");
}
// If `kBit` of the mask is set: the next word of a list, which moves on; else 0.
template <u32 kBit>
DEVICE u32 take(u32 mask, u32& list) {
  u32 v;
  asm volatile(
      "{.reg .pred q; .reg .b32 t; and.b32 t, %2, %3; setp.ne.u32 q, t, 0; mov.b32 %0, 0; "
      "@q ld.shared.u32 %0, [%1]; @q add.u32 %1, %1, 4;}"
      : "=&r"(v), "+r"(list)
      : "r"(mask), "n"(kBit));
  return v;
}

// mbarriers: phases that end when all have arrived and all bytes have come.
DEVICE void barrier_init(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
DEVICE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
DEVICE void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
DEVICE void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
DEVICE void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Copies from global memory that arrive at a barrier with their bytes.
DEVICE void copy_bulk(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
DEVICE void copy_box(u32 to, const TensorMap* map, int column, int row, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2,%3}], [%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
DEVICE void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Orders of products, and of stores before them.
DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
DEVICE void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
DEVICE void stores_before_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
DEVICE void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Clusters of thread blocks.
DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
DEVICE u32 cluster_rank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
DEVICE float4 cluster_load128(u32 at, u32 rank) {
  float4 v;
  asm volatile(
      "{.reg .b32 r; mapa.shared::cluster.u32 r, %4, %5; ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, "
      "[r];}"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "r"(at), "r"(rank)
      : "memory");
  return v;
}

// Warps.
DEVICE void warp_sync() { __syncwarp(); }
DEVICE u32 shift_in_fours(u32 v, int lanes) { return __shfl_up_sync(0xffffffffu, v, lanes, 4); }
DEVICE u32 transpose8x8(u32 v) {
  u32 d;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(v));
  return d;
}
DEVICE u32 halves(float low, float high) {
  __half2 h = __floats2half2_rn(low, high);
  return *(u32*)&h;
}
// Let registers count as used, where an ablation leaves the products out.
DEVICE void hold(u32 (&a)[8]) {
  asm volatile("" ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]),
               "r"(a[7]));
}
