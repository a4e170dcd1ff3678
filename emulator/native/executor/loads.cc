// ld and st: vectors, registers wider than elements, all spaces.
#include <algorithm>

#include "lanes.h"
#include "memory.h"
#include "spins.h"

namespace ptx {
namespace {

// Arguments: address, then the registers of a vector. E is extended to R by its sign.
// detail: whether threads wait by it.
template <class E, class R>
void Load(Warp& w, const Inst& i, Mask mask) {
  Reached reached;
  if (i.space == Space::kParam) {
    const char* params = w.block->launch->params.data() + i.offset;
    for (int l = 0; l < kLanes; ++l) reached.data[l] = const_cast<char*>(params);
    reached.lanes = mask;
  } else {
    Addresses(w, i, i.args[0], mask, reached.address);
    Reach(w, i, i.space, i.bytes * i.count, mask, Use::kRead, &reached);
  }
  Seen seen;
  for (int k = 0; k < i.count; ++k) {
    R* d = w.At<R>(i.args[1 + k]);
    for (int l = 0; l < kLanes; ++l) {
      if (!(mask >> l & 1)) continue;
      E value{};
      if (reached.lanes >> l & 1) std::memcpy(&value, reached.data[l] + k * sizeof(E), sizeof(E));
      d[l] = static_cast<R>(value);
      if (i.detail) seen.Add(reached.data[l], value);
    }
  }
  if (i.detail) Look(w, i, seen);
}

template <class E, class R>
void Store(Warp& w, const Inst& i, Mask mask) {
  Reached reached;
  Addresses(w, i, i.args[0], mask, reached.address);
  Reach(w, i, i.space, i.bytes * i.count, mask, Use::kWrite, &reached);
  for (int k = 0; k < i.count; ++k) {
    const R* s = w.At<R>(i.args[1 + k]);
    for (int l = 0; l < kLanes; ++l) {
      if (!(reached.lanes >> l & 1)) continue;
      const E value = static_cast<E>(s[l]);
      std::memcpy(reached.data[l] + k * sizeof(E), &value, sizeof(E));
    }
  }
}

template <class E, bool kStore>
Run ByRegister(int bytes) {
  switch (bytes) {
    case 2: return kStore ? Store<E, uint16_t> : Load<E, uint16_t>;
    case 4: return kStore ? Store<E, uint32_t> : Load<E, uint32_t>;
    case 8: return kStore ? Store<E, uint64_t> : Load<E, uint64_t>;
    default: return nullptr;
  }
}

template <bool kStore>
Run ByElement(Type type, int bytes) {
  switch (type) {
    case Type::kS8: return ByRegister<int8_t, kStore>(bytes);
    case Type::kS16: return ByRegister<int16_t, kStore>(bytes);
    case Type::kS32: return ByRegister<int32_t, kStore>(bytes);
    default: break;
  }
  switch (Bytes(type)) {
    case 1: return ByRegister<uint8_t, kStore>(bytes);
    case 2: return ByRegister<uint16_t, kStore>(bytes);
    case 4: return ByRegister<uint32_t, kStore>(bytes);
    default: return ByRegister<uint64_t, kStore>(bytes);
  }
}

Space TakeAnySpace(Decoder& d, bool store) {
  if (d.Has("local")) return Space::kLocal;
  if (d.Has("param") || d.Has("param::func")) return Space::kParam;
  if (!store && d.Has("param::entry")) return Space::kParam;
  if (!store && d.Has("const")) return Space::kGlobal;  // variables of the module lie there
  return TakeSpace(d);
}

// Hints that change no value.
void SkipHints(Decoder& d) {
  for (const char* hint :
       {"weak", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "L2::64B", "L2::128B", "L2::256B",
        "L1::no_allocate", "L1::evict_last", "L1::evict_first"}) {
    d.Has(hint);
  }
}

template <bool kStore>
void DecodeAccess(Decoder& d) {
  d.inst.space = TakeAnySpace(d, kStore);
  SkipHints(d);
  d.inst.detail = SkipOrder(d);
  d.inst.count = d.Has("v2") ? 2 : d.Has("v4") ? 4 : 1;
  const Type type = d.TakeType();
  d.End();
  d.Operands(2);
  d.inst.bytes = static_cast<uint8_t>(Bytes(type));
  if (d.inst.bytes == 0 || d.inst.bytes * d.inst.count > 16) d.Unknown();
  const bool parameter = d.inst.space == Space::kParam;
  d.Address(d.operand(kStore ? 0 : 1));
  if (kStore && d.inst.space == Space::kParam) d.Unknown();
  const Operand& value = d.operand(kStore ? 1 : 0);
  std::vector<Operand> parts{value};
  if (value.kind == Operand::kVector) parts = value.parts;
  if (parts.size() != d.inst.count) d.Unknown();
  int bytes = 0;
  for (Operand& part : parts) {
    Register found{};
    if (part.name == "_" && !kStore) found = {d.Target(part, type), Bytes(type)};
    else found = d.Loose(part, type);
    if (!kStore && part.kind != Operand::kName) d.Unknown();
    if (bytes != 0 && found.bytes != bytes) d.Unknown();
    bytes = found.bytes;
    d.Push(found.place);
    if (!kStore) d.written.push_back(found.place);
  }
  d.inst.run = ByElement<kStore>(type, bytes);
  if (d.inst.run == nullptr) d.Unknown();
  // What calls hand over lies in registers of a GPU.
  d.inst.pipe = parameter && d.inst.space == Space::kLocal ? kAlu : kMemory;
  if (d.inst.space == Space::kShared || d.inst.space == Space::kGeneric) {
    int& granule = d.builder.kernel().granule;
    granule = std::min<int>(granule, d.inst.bytes * d.inst.count);
  }
}

}  // namespace

Space TakeSpace(Decoder& d) {
  if (d.Has("global")) return Space::kGlobal;
  return d.Has("shared") || d.Has("shared::cta") ? Space::kShared : Space::kGeneric;
}

bool SkipOrder(Decoder& d) {
  bool found = false;
  for (const char* order : {"volatile", "relaxed", "acquire", "release", "acq_rel"})
    found = d.Has(order) || found;
  for (const char* scope : {"cta", "cluster", "gpu", "sys"}) d.Has(scope);
  return found;
}

void AddMemory(Table* table) {
  (*table)["ld"] = DecodeAccess<false>;
  (*table)["ldu"] = DecodeAccess<false>;
  (*table)["st"] = DecodeAccess<true>;
}

}  // namespace ptx
