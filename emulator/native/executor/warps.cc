// Instructions in which lanes of a warp see each other: shfl, vote, elect, activemask, bar.warp.
#include "lanes.h"

namespace ptx {

void ExpectMembers(Warp& w, const Inst& i, Mask mask, const uint32_t* members) {
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const Mask missing = members[l] & ~mask;
    if (missing != 0 || !(members[l] >> l & 1)) {
      return Report(w, i, l, "warp divergence", "", "lanes that its mask names are not there");
    }
  }
}

namespace {

enum Way { kIdx, kUp, kDown, kBfly };

// Arguments: d, p or nowhere, a, lane or distance, clamp and segments, members.
void Shuffle(Warp& w, const Inst& i, Mask mask) {
  uint32_t* d = w.At<uint32_t>(i.args[0]);
  const uint32_t *b = w.At<uint32_t>(i.args[3]), *c = w.At<uint32_t>(i.args[4]);
  uint32_t a[kLanes];
  std::memcpy(a, w.At<uint32_t>(i.args[2]), sizeof a);
  ExpectMembers(w, i, mask, w.At<uint32_t>(i.args[5]));
  Mask inside = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const int by = static_cast<int>(b[lane] & 31), clamp = static_cast<int>(c[lane] & 31);
    const int segments = static_cast<int>(c[lane] >> 8 & 31);
    const int most = (lane & segments) | (clamp & ~segments), least = lane & segments;
    int from = 0;
    bool good = false;
    switch (static_cast<Way>(i.detail)) {
      case kUp: from = lane - by, good = from >= most; break;
      case kDown: from = lane + by, good = from <= most; break;
      case kBfly: from = lane ^ by, good = from <= most; break;
      case kIdx: from = least | (by & ~segments), good = from <= most; break;
    }
    if (!good) from = lane;
    if (good) inside |= Mask{1} << lane;
    if (!(mask >> from & 1)) {
      Report(w, i, lane, "warp divergence", "", "it reads a lane that is not there");
      from = lane;
    }
    d[lane] = a[from];
  }
  if (i.args[1] != kNowhere) {
    Mask* p = w.At<Mask>(i.args[1]);
    *p = (*p & ~mask) | (inside & mask);
  }
}

void DecodeShuffle(Decoder& d) {
  if (!d.Has("sync")) d.Unknown();
  if (d.Has("idx")) d.inst.detail = kIdx;
  else if (d.Has("up")) d.inst.detail = kUp;
  else if (d.Has("down")) d.inst.detail = kDown;
  else if (d.Has("bfly")) d.inst.detail = kBfly;
  else d.Unknown();
  if (d.TakeType() != Type::kB32) d.Unknown();
  d.End();
  d.Operands(5);
  const Operand& target = d.operand(0);
  d.Push(d.Target(target, Type::kB32));
  d.Push(target.second.empty() ? kNowhere : d.PredicateTarget(target.second));
  for (size_t i = 1; i < 5; ++i) d.Push(d.Source(i, Type::kB32));
  d.inst.pipe = kMemory;
  d.inst.run = Shuffle;
}

enum Vote { kBallot, kAll_, kAny, kUniform };

// Arguments: d, a predicate, members.
void Voting(Warp& w, const Inst& i, Mask mask) {
  const Mask members = w.At<uint32_t>(i.args[2])[__builtin_ctz(mask)];
  ExpectMembers(w, i, mask, w.At<uint32_t>(i.args[2]));
  const Mask given = *w.At<Mask>(i.args[1]);
  const Mask found = (i.detail & 8 ? ~given : given) & members & mask;
  const int way = i.detail & 7;
  if (way == kBallot) {
    uint32_t* d = w.At<uint32_t>(i.args[0]);
    for (int l = 0; l < kLanes; ++l)
      if (mask >> l & 1) d[l] = found;
    return;
  }
  const bool all = found == (members & mask), any = found != 0;
  const bool holds = way == kAll_ ? all : way == kAny ? any : all || !any;
  Mask* d = w.At<Mask>(i.args[0]);
  *d = (*d & ~mask) | (holds ? mask : 0);
}

void DecodeVote(Decoder& d) {
  if (!d.Has("sync")) d.Unknown();
  if (d.Has("ballot")) d.inst.detail = kBallot;
  else if (d.Has("all")) d.inst.detail = kAll_;
  else if (d.Has("any")) d.inst.detail = kAny;
  else if (d.Has("uni")) d.inst.detail = kUniform;
  else d.Unknown();
  const Type type = d.TakeType();
  d.End();
  d.Operands(3);
  const bool ballot = d.inst.detail == kBallot;
  if (type != (ballot ? Type::kB32 : Type::kPred)) d.Unknown();
  bool negated;
  d.Push(ballot ? d.Target(d.operand(0), type) : d.PredicateTarget(d.operand(0).name));
  d.Push(d.Predicate(d.operand(1), &negated));
  d.Push(d.Source(2, Type::kB32));
  d.inst.detail |= negated ? 8 : 0;
  d.inst.run = Voting;
}

void ActiveMask(Warp& w, const Inst& i, Mask mask) {
  uint32_t* d = w.At<uint32_t>(i.args[0]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = mask;
}

// Arguments: d, p, members. The lowest of them is elected.
void Elect(Warp& w, const Inst& i, Mask mask) {
  const uint32_t* members = w.At<uint32_t>(i.args[2]);
  ExpectMembers(w, i, mask, members);
  const Mask leader = mask & -mask;
  uint32_t* d = w.At<uint32_t>(i.args[0]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = static_cast<uint32_t>(__builtin_ctz(mask));
  Mask* p = w.At<Mask>(i.args[1]);
  *p = (*p & ~mask) | leader;
}

void DecodeElect(Decoder& d) {
  if (!d.Has("sync")) d.Unknown();
  d.End();
  d.Operands(2);
  const Operand& target = d.operand(0);
  if (target.second.empty()) d.Unknown();
  d.Push(d.Target(target, Type::kB32));
  d.Push(d.PredicateTarget(target.second));
  d.Push(d.Source(1, Type::kB32));
  d.inst.run = Elect;
}

void WarpBarrier(Warp& w, const Inst& i, Mask mask) {
  const uint32_t* members = w.At<uint32_t>(i.args[0]);
  ExpectMembers(w, i, mask, members);
  // Memory of the warp's lanes is ordered if the barrier is one of all that are left.
  if ((members[__builtin_ctz(mask)] & w.alive) == w.alive && mask == w.alive) SyncWarp(w);
}

}  // namespace

void DecodeWarpBarrier(Decoder& d) {
  if (!d.Has("sync")) d.Unknown();
  d.End();
  d.Operands(1);
  d.Push(d.Source(0, Type::kB32));
  d.inst.pipe = kControl;
  d.inst.run = WarpBarrier;
}

void AddWarp(Table* table) {
  Table& t = *table;
  t["shfl"] = DecodeShuffle;
  t["vote"] = DecodeVote;
  t["elect"] = DecodeElect;
  t["activemask"] = [](Decoder& d) {
    const Type type = d.TakeType();
    d.End();
    d.Operands(1);
    d.Push(d.Target(d.operand(0), type));
    if (type != Type::kB32) d.Unknown();
    d.inst.run = ActiveMask;
  };
}

}  // namespace ptx
