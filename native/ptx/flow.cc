// bra, ret, exit, bar, fences.
#include "lanes.h"

namespace ptx {

void DecodeWarpBarrier(Decoder& d);

namespace {

void Nothing(Warp&, const Inst&, Mask) {}

void Trap(Warp& w, const Inst& i, Mask mask) {
  Report(w, i, __builtin_ctz(mask), "trap", "", "the kernel stops itself");
}

// Barrier 0 of all threads alone: what __syncthreads() is.
void DecodeBarrier(Decoder& d) {
  d.inst.pipe = kControl;
  if (d.Has("warp")) return DecodeWarpBarrier(d);
  d.Has("cta");
  if (!d.Has("sync")) d.Unknown();
  d.Has("aligned");
  d.End();
  d.Operands(1);
  if (d.Immediate(0) != 0) d.Unknown();
  d.inst.flow = Flow::kBarrier;
}

void DecodeReturn(Decoder& d) {
  d.Has("uni");
  d.End();
  d.Operands(0);
  d.inst.pipe = kControl;
  d.inst.flow = Flow::kReturn;
}

}  // namespace

void AddFlow(Table* table) {
  Table& t = *table;
  t["bra"] = [](Decoder& d) {
    d.Has("uni");
    d.End();
    d.Operands(1);
    d.inst.pipe = kControl;
    d.inst.flow = Flow::kBranch;
  };
  t["ret"] = t["exit"] = DecodeReturn;
  t["bar"] = t["barrier"] = DecodeBarrier;
  t["trap"] = [](Decoder& d) {
    d.End();
    d.inst.run = Trap;
  };
  // Everything is in order here: a fence has nothing to wait for.
  t["membar"] = t["fence"] = [](Decoder& d) {
    for (const char* scope : {"sc", "acq_rel", "cta", "gl", "gpu", "sys"}) d.Has(scope);
    d.End();
    d.inst.run = Nothing;
    d.inst.pipe = kControl;
  };
}

}  // namespace ptx
