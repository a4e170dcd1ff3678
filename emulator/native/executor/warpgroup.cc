// wgmma: products that a warpgroup asks for and waits for; done as late as the wait.
#include "warpgroup.h"

#include <algorithm>

#include "lanes.h"
#include "memory.h"
#include "spins.h"

namespace ptx {
namespace {

constexpr int kUnitBytes = 16, kGroupRows = 64;

// Each 16 bytes of shared memory that a product may read: no warp owns rows of the left matrix.
template <class Each>
void ForEachUnit(const Product& product, Each each) {
  const ProductForm form = FormOf(*product.inst);
  const auto units = [&](const Matrix& matrix, int rows, int columns) {
    for (int row = 0; row < rows; row += matrix.across())
      for (int column = 0; column < columns; column += matrix.along())
        each(matrix.At(row, column) / kUnitBytes * kUnitBytes);
  };
  if (!form.held) units(LeftOf(product), kGroupRows, form.stored());
  units(RightOf(product), form.features, form.columns());
}

bool Inside(const Warp& warp, uint64_t address) {
  return address + kUnitBytes <= warp.block->shared.size();
}

void Begin(Warp& w, const Product& product) {
  Shadow& shadow = w.block->shadow;
  const Inst& i = *product.inst;
  ForEachUnit(product, [&](uint64_t address) {
    if (!Inside(w, address)) {
      return Report(w, i, 0, "out of bounds", SharedName(w, address), "a matrix reaches there");
    }
    NoteShared(w, i, 0, address, kUnitBytes, Note::kLookRead);
    shadow.Open(address, kUnitBytes, AccessOf(w, i, 0));
  });
}

void End(Warp& w, const Product& product) {
  Shadow& shadow = w.block->shadow;
  ForEachUnit(product, [&](uint64_t address) {
    if (Inside(w, address)) shadow.Close(address, kUnitBytes, AccessOf(w, *product.inst, 0));
  });
  GiveRegisters(w, *product.inst);
}

// Arguments: ProductArgument, then the left matrix if registers hold it, then the sums.
void Ask(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  const ProductForm form = FormOf(i);
  const int lane = __builtin_ctz(mask);
  const Mask scale = *w.At<Mask>(i.args[kScale]);
  const uint64_t left = form.held ? 0 : w.At<uint64_t>(i.args[kLeft])[lane];
  const uint64_t right = w.At<uint64_t>(i.args[kRight])[lane];
  w.products.push_back({&i, left, right, w.product_groups, (scale >> lane & 1) != 0});
  const auto line = static_cast<uint64_t>(i.line);
  w.issued = {&i, Mixed(Mixed(Mixed(w.issued.hash, line), left), right)};
  if (!w.block->launch->device->sanitize) return;
  TakeRegisters(w, i);
  Begin(w, w.products.back());
}

void Fence(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  ++w.touched.fences;
}

void Commit(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  ++w.product_groups;
}

// All groups but the last `detail` committed ones.
void Wait(Warp& w, const Inst& i, Mask mask) {
  ExpectWhole(w, i, mask);
  ++w.block->launch->counters.waits;
  const auto open = static_cast<uint32_t>(i.detail);
  const uint32_t limit = w.product_groups > open ? w.product_groups - open : 0;
  const auto waits = [&](const Product& product) { return product.group >= limit; };
  const auto end = std::find_if(w.products.begin(), w.products.end(), waits);
  for (auto product = w.products.begin(); product != end; ++product) {
    Multiply(w, *product);
    if (w.block->launch->device->sanitize) End(w, *product);
  }
  w.products.erase(w.products.begin(), end);
  SyncWarp(w);
}

void DecodeSync(Decoder& d, Run run) {
  if (!d.Has("sync") || !d.Has("aligned")) d.Unknown();
  d.End();
  d.Operands(run == Wait ? 1 : 0);
  if (run == Wait) d.inst.detail = static_cast<int>(d.Immediate(0));
  d.inst.pipe = kControl;
  d.inst.run = run;
}

// "m64n8k16": the result's columns, which are a multiple of 8 up to 256.
void TakeShape(Decoder& d, ProductForm* form) {
  for (int n = 8; n <= 256; n += 8) {
    const std::string shape = "m64n" + std::to_string(n) + "k" + std::to_string(form->columns());
    if (d.Has(shape.c_str())) form->features = static_cast<uint16_t>(n);
  }
  if (form->features == 0) d.Unknown();
}

// "m64n8k16.f32.f16.f16" and the like; all sums are of fp32.
void TakeTypes(Decoder& d, ProductForm* form) {
  const bool tf32 = d.Has("tf32");
  if (tf32) form->type = Type::kF32;
  TakeShape(d, form);
  if (d.TakeType() != Type::kF32) d.Unknown();
  if (tf32 && (form->sparse || !d.Has("tf32"))) d.Unknown();
  if (!tf32) {
    form->type = d.TakeType();
    if (d.TakeType() != form->type) d.Unknown();
    if (form->type != Type::kF16 && form->type != Type::kBF16) d.Unknown();
  }
  d.End();
}

bool Flag(Decoder& d, size_t operand) {
  const uint64_t bits = d.Immediate(operand);
  if (bits > 1) d.Unknown();
  return bits == 1;
}

bool Negative(Decoder& d, size_t operand) {
  const auto value = static_cast<int64_t>(d.Immediate(operand));
  if (value != 1 && value != -1) d.Unknown();
  return value == -1;
}

// "scale-d, negate-a, negate-b, turn-a, turn-b", from operand `at` on.
void TakeFlags(Decoder& d, size_t at, ProductForm* form) {
  bool negated;
  d.Push(d.Predicate(d.operand(at), &negated));
  if (negated) d.Unknown();
  form->negate_left = Negative(d, at + 1);
  form->negate_right = Negative(d, at + 2);
  if (form->type == Type::kF32) return d.Operands(at + 3);
  d.Operands(at + (form->held ? 4 : 5));
  if (!form->held) form->turn_left = Flag(d, at + 3);
  form->turn_right = Flag(d, d.operands() - 1);
}

void DecodeProduct(Decoder& d) {
  ProductForm form;
  form.sparse = d.Has("sp");
  if (!d.Has("sync") || !d.Has("aligned")) d.Unknown();
  TakeTypes(d, &form);
  if (d.operands() < 6) d.Unknown();
  form.held = d.operand(1).kind == Operand::kVector;
  if (form.sparse) form.selector = Flag(d, 4);
  TakeFlags(d, form.sparse ? 5 : 3, &form);
  d.Push(form.held ? kNowhere : d.Source(1, Type::kB64));
  d.Push(d.Source(2, Type::kB64));
  d.Push(form.sparse ? d.Source(3, Type::kB32) : kNowhere);
  if (form.held) d.Vector(1, 4, Type::kB32, false);
  d.Vector(0, form.features / 2, Type::kF32, true);
  std::memcpy(&d.inst.offset, &form, sizeof form);
  d.inst.pipe = kTensor;
  d.inst.run = Ask;
}

void DecodeWarpgroup(Decoder& d) {
  Kernel& kernel = d.builder.kernel();
  kernel.clocked = kernel.watched = true;
  if (d.Has("fence")) DecodeSync(d, Fence);
  else if (d.Has("commit_group")) DecodeSync(d, Commit);
  else if (d.Has("wait_group")) DecodeSync(d, Wait);
  else if (d.Has("mma_async")) DecodeProduct(d);
  else d.Unknown();
}

}  // namespace

bool IsProduct(const Inst& inst) { return inst.run == Ask; }

void ReportLeft(Warp& warp) {
  const auto left = [&](const Inst& inst, const char* kind) {
    Report(warp, inst, 0, kind, "", "its warp has ended without waiting for it");
  };
  for (const Product& product : warp.products) left(*product.inst, "open group");
  for (const BulkStore& store : warp.stores) left(*store.inst, "unfinished copy");
}

void ReportUnlike(Block& block) {
  constexpr size_t kGroup = 4;
  for (Warp& warp : block.warps) {
    const Warp& first = block.warps[static_cast<size_t>(warp.index) / kGroup * kGroup];
    if (warp.issued.hash == first.issued.hash) continue;
    const Issued& known = warp.issued.last != nullptr ? warp.issued : first.issued;
    Report(warp, *known.last, 0, "warp divergence", "",
           "the warps of its warpgroup asked for other products");
  }
}

void AddWarpgroups(Table* table) { (*table)["wgmma"] = DecodeWarpgroup; }

}  // namespace ptx
