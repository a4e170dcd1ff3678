// Values of a warp's lanes together: redux, match.
#include "combine.h"
#include "lanes.h"

namespace ptx {
namespace {

// Arguments: d, a, members. Members are reduced, each gets the result.
template <class F, class T>
void Reduce(Warp& w, const Inst& i, Mask mask) {
  ExpectMembers(w, i, mask, w.At<uint32_t>(i.args[2]));
  const T* a = w.At<T>(i.args[1]);
  const uint32_t* members = w.At<uint32_t>(i.args[2]);
  T found[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    bool any = false;
    for (int other = 0; other < kLanes; ++other) {
      if (!(members[l] & mask & Mask{1} << other)) continue;
      found[l] = any ? F::Do(found[l], a[other]) : a[other];
      any = true;
    }
  }
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) w.At<T>(i.args[0])[l] = found[l];
}

template <class F>
Run OfIntegers(Type type) {
  if (type == Type::kS32) return Reduce<F, int32_t>;
  return type == Type::kU32 ? Reduce<F, uint32_t> : nullptr;
}

void DecodeReduce(Decoder& d) {
  if (!d.Has("sync")) d.Unknown();
  const bool sum = d.Has("add"), least = d.Has("min"), most = d.Has("max");
  const bool both = d.Has("and"), either = d.Has("or"), one = d.Has("xor");
  const Type type = d.TakeType();
  const bool bits = type == Type::kB32;
  Run run = nullptr;
  if (sum) run = OfIntegers<Sum>(type);
  else if (least) run = OfIntegers<Least>(type);
  else if (most) run = OfIntegers<Most>(type);
  else if (both && bits) run = Reduce<BothBits, uint32_t>;
  else if (either && bits) run = Reduce<EitherBit, uint32_t>;
  else if (one && bits) run = Reduce<OneBit, uint32_t>;
  Uniform(d, type, 2, run, kAlu);
}

// Arguments: d, p or nowhere, a, members. Which lanes hold the same value; of `all` (detail): the
// members if all do, else none.
template <class T>
void Match(Warp& w, const Inst& i, Mask mask) {
  const uint32_t* members = w.At<uint32_t>(i.args[3]);
  ExpectMembers(w, i, mask, members);
  const T* a = w.At<T>(i.args[2]);
  Mask found[kLanes], alike = 0;
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    found[l] = 0;
    for (int other = 0; other < kLanes; ++other) {
      const bool same = members[l] & mask & Mask{1} << other && a[other] == a[l];
      found[l] |= same ? Mask{1} << other : 0;
    }
    const bool all = found[l] == (members[l] & mask);
    alike |= all ? Mask{1} << l : 0;
    if (i.detail && !all) found[l] = 0;
  }
  uint32_t* d = w.At<uint32_t>(i.args[0]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = found[l];
  if (i.args[1] == kNowhere) return;
  Mask* p = w.At<Mask>(i.args[1]);
  *p = (*p & ~mask) | (alike & mask);
}

void DecodeMatch(Decoder& d) {
  d.inst.detail = d.Has("all");
  if (!d.Has("sync") || (!d.inst.detail && !d.Has("any"))) d.Unknown();
  const Type type = d.TakeType();
  d.End();
  d.Operands(3);
  const Operand& target = d.operand(0);
  if (!target.second.empty() && !d.inst.detail) d.Unknown();
  d.Push(d.Target(target, Type::kB32));
  d.Push(target.second.empty() ? kNowhere : d.PredicateTarget(target.second));
  d.Push(d.Source(1, type));
  d.Push(d.Source(2, Type::kB32));
  if (type == Type::kB32) d.inst.run = Match<uint32_t>;
  else if (type == Type::kB64) d.inst.run = Match<uint64_t>;
  else d.Unknown();
}

}  // namespace

void AddCollectives(Table* table) {
  (*table)["redux"] = DecodeReduce;
  (*table)["match"] = DecodeMatch;
}

}  // namespace ptx
