#include "registers.h"

#include "machine.h"
#include "warpgroup.h"

namespace ptx {

void Touched::Reset(uint32_t register_bytes) {
  const uint32_t count = Index(register_bytes) + 1;
  results.assign(count, 0);
  inputs.assign(count, 0);
  written.assign(count, 0);
  fences = 1;
}

void CheckRegisters(Warp& warp, const Inst& inst) {
  if (IsProduct(inst)) return;
  Touched& touched = warp.touched;
  bool bad = false;
  for (int i = 0; i < inst.operands; ++i) {
    if (inst.args[i] >= kNowhere) continue;  // a constant, or no register
    const uint32_t index = Touched::Index(inst.args[i]);
    const bool writes = i < 32 && inst.targets >> i & 1;
    bad = bad || touched.results[index] > 0 || (writes && touched.inputs[index] > 0);
    if (writes) touched.written[index] = touched.fences;
  }
  if (!bad) return;
  Report(warp, inst, __builtin_ctz(warp.active), "open register",
         "a register of line " + std::to_string(warp.products.back().inst->line),
         "no wgmma.wait_group lies between");
}

void TakeRegisters(Warp& warp, const Inst& inst) {
  Touched& touched = warp.touched;
  bool fenced = true;
  const auto take = [&](Place place, std::vector<uint16_t>* owned) {
    if (place >= kNowhere) return;
    const uint32_t index = Touched::Index(place);
    fenced = fenced && touched.written[index] != touched.fences;
    ++(*owned)[index];
  };
  for (const Place place : Inputs(inst)) take(place, &touched.inputs);
  for (const Place place : Results(inst)) take(place, &touched.results);
  if (fenced) return;
  Report(warp, inst, 0, "register fence", "",
         "its registers were written and no wgmma.fence lies between");
}

void GiveRegisters(Warp& warp, const Inst& inst) {
  Touched& touched = warp.touched;
  for (const Place place : Inputs(inst)) {
    if (place < kNowhere) --touched.inputs[Touched::Index(place)];
  }
  for (const Place place : Results(inst)) --touched.results[Touched::Index(place)];
}

}  // namespace ptx
