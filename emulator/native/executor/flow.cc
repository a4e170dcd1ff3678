// bra, ret, exit, bar, fences.
#include "lanes.h"

namespace ptx {

void DecodeWarpBarrier(Decoder& d);

namespace {

void Nothing(Warp&, const Inst&, Mask) {}

void Trap(Warp& w, const Inst& i, Mask mask) {
  Report(w, i, __builtin_ctz(mask), "trap", "", "the kernel stops itself");
}

// "bar.sync 0" is what __syncthreads() is; others have a number, and a count of threads unless all
// of the block are meant. Arguments of those: number, count or nowhere.
void DecodeBarrier(Decoder& d) {
  d.inst.pipe = kControl;
  if (d.Has("warp")) return DecodeWarpBarrier(d);
  d.Has("cta");
  const bool arrives = d.Has("arrive");
  if (!arrives && !d.Has("sync")) d.Unknown();
  d.Has("aligned");
  d.End();
  d.inst.flow = Flow::kBarrier;
  const bool number = d.operands() > 0 && d.operand(0).kind == Operand::kNumber;
  if (d.operands() == 1 && number && d.Immediate(0) == 0 && !arrives) return;
  if (d.operands() != 2 && (arrives || d.operands() != 1)) d.Unknown();
  d.builder.kernel().clocked = true;
  d.inst.detail = arrives ? kArrives : kNumbered;
  d.Push(d.Source(0, Type::kU32));
  d.Push(d.operands() == 2 ? d.Source(1, Type::kU32) : kNowhere);
}

void Proxy(Warp& w, const Inst&, Mask mask) { FenceProxy(w, mask); }

// Threads' accesses are in order here: their fences have nothing to wait for. The asynchronous
// proxy sees what was written when a fence of its own says so.
void DecodeFence(Decoder& d) {
  d.inst.run = Nothing;
  d.inst.pipe = kControl;
  const bool proxy = d.Has("proxy");
  if (proxy && !d.Has("async")) d.Unknown();
  if (d.Has("mbarrier_init")) {
    if (proxy || !d.Has("release") || !d.Has("cluster")) d.Unknown();
    d.inst.run = Proxy;
  } else if (proxy) {
    for (const char* space : {"shared::cta", "shared::cluster", "global"}) d.Has(space);
    d.inst.run = Proxy;
  } else {
    for (const char* scope :
         {"sc", "acq_rel", "acquire", "release", "cta", "cluster", "gl", "gpu", "sys"})
      d.Has(scope);
  }
  d.End();
}

void DecodeRegisterCount(Decoder& d) {
  if (d.Has("inc") == d.Has("dec") || !d.Has("sync") || !d.Has("aligned")) d.Unknown();
  if (d.TakeType() != Type::kU32) d.Unknown();
  d.End();
  d.Operands(1);
  const uint64_t count = d.Immediate(0);
  if (count < 24 || count > 256 || count % 8 != 0) d.Unknown();
  d.inst.run = ExpectWhole;
  d.inst.pipe = kControl;
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
  t["membar"] = t["fence"] = DecodeFence;
  t["griddepcontrol"] = [](Decoder& d) {  // launches run one after the other
    if (!d.Has("wait") && !d.Has("launch_dependents")) d.Unknown();
    d.End();
    d.Operands(0);
    d.inst.run = Nothing;
    d.inst.pipe = kControl;
  };
  t["nanosleep"] = [](Decoder& d) {
    if (d.TakeType() != Type::kU32) d.Unknown();
    d.End();
    d.Operands(1);
    d.inst.run = Nothing;
    d.inst.pipe = kControl;
  };
  t["setmaxnreg"] = DecodeRegisterCount;
  t["prefetch"] = [](Decoder& d) {  // changes no value, wherever it points to
    if (!d.Has("tensormap")) {
      d.Has("global");
      if (!d.Has("L1") && !d.Has("L2")) d.Unknown();
    }
    d.End();
    d.Operands(1);
    d.NextAddress(d.operand(0));
    d.inst.run = Nothing;
    d.inst.pipe = kMemory;
  };
}

}  // namespace ptx
