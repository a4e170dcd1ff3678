// Handlers that compute each lane by itself, from a function of one lane.
#pragma once
#include "decoder.h"
#include "half.h"
#include "machine.h"

// One function, compiled for several instruction sets; the loader picks (glibc ifunc).
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define PTX_MULTIVERSION __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define PTX_MULTIVERSION
#endif

namespace ptx {

// Functors have a static Do of one to three values of T.
template <class F, class T, class R = T>
void Map1(Warp& w, const Inst& i, Mask mask) {
  R* d = w.At<R>(i.args[0]);
  const T* a = w.At<T>(i.args[1]);
  for (int l = 0; l < kLanes; ++l) {
    if (mask >> l & 1) d[l] = F::Do(a[l]);
  }
}

template <class F, class T, class R = T>
void Map2(Warp& w, const Inst& i, Mask mask) {
  R* d = w.At<R>(i.args[0]);
  const T* a = w.At<T>(i.args[1]);
  const T* b = w.At<T>(i.args[2]);
  if (mask == kAll) {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) d[l] = F::Do(a[l], b[l]);
    return;
  }
  for (int l = 0; l < kLanes; ++l) {
    if (mask >> l & 1) d[l] = F::Do(a[l], b[l]);
  }
}

template <class F, class T, class R = T>
void Map3(Warp& w, const Inst& i, Mask mask) {
  R* d = w.At<R>(i.args[0]);
  const T* a = w.At<T>(i.args[1]);
  const T* b = w.At<T>(i.args[2]);
  const R* c = w.At<R>(i.args[3]);
  if (mask == kAll) {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) d[l] = F::Do(a[l], b[l], c[l]);
    return;
  }
  for (int l = 0; l < kLanes; ++l) {
    if (mask >> l & 1) d[l] = F::Do(a[l], b[l], c[l]);
  }
}

// Two numbers of 16 bits in a register, by a functor of one.
template <class F, class T>
struct Both {
  template <class... A>
  static uint32_t Do(A... a) {
    const auto low = F::Do(T{static_cast<uint16_t>(a)}...);
    const auto high = F::Do(T{static_cast<uint16_t>(a >> 16)}...);
    return low.bits | static_cast<uint32_t>(high.bits) << 16;
  }
};

// Decode "d, a, b, ..." where all operands have one type.
inline void Uniform(Decoder& d, Type type, size_t sources, Run run, Pipe pipe) {
  if (run == nullptr) d.Unknown();
  d.End();
  d.Operands(sources + 1);
  d.Push(d.Target(d.operand(0), type));
  for (size_t i = 1; i <= sources; ++i) d.Push(d.Source(i, type));
  d.inst.run = run;
  d.inst.pipe = pipe;
}

}  // namespace ptx
