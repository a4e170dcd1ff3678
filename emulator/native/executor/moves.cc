// mov with its packing of vectors, selp, cvta.
#include <numeric>

#include "lanes.h"
#include "memory.h"

namespace ptx {
namespace {

struct Copied {
  template <class T>
  static T Do(T a) {
    return a;
  }
};

void MovePredicate(Warp& w, const Inst& i, Mask mask) {
  Mask* d = w.At<Mask>(i.args[0]);
  *d = (*d & ~mask) | ((i.detail ? ~*w.At<Mask>(i.args[1]) : *w.At<Mask>(i.args[1])) & mask);
}

// The parts of a register, the lowest first: W of P, `count` of them, or the other way.
template <class P, class W, bool kPack>
void Pack(Warp& w, const Inst& i, Mask mask) {
  W* whole = w.At<W>(i.args[0]);
  for (int k = 0; k < i.count; ++k) {
    P* part = w.At<P>(i.args[1 + k]);
    for (int l = 0; l < kLanes; ++l) {
      if (!(mask >> l & 1)) continue;
      const int shift = 8 * static_cast<int>(sizeof(P)) * k;
      if (kPack) {
        const W rest = k == 0 ? W(0) : whole[l];
        whole[l] = rest | static_cast<W>(static_cast<W>(part[l]) << shift);
      } else {
        part[l] = static_cast<P>(whole[l] >> shift);
      }
    }
  }
}

template <bool kPack>
Run PackRun(int whole, size_t parts) {
  if (whole == 4 && parts == 2) return Pack<uint16_t, uint32_t, kPack>;
  if (whole == 8 && parts == 2) return Pack<uint32_t, uint64_t, kPack>;
  if (whole == 8 && parts == 4) return Pack<uint16_t, uint64_t, kPack>;
  return nullptr;
}

void DecodePack(Decoder& d, Type type, bool pack) {
  const Operand& parts = d.operand(pack ? 1 : 0);
  d.inst.run = pack ? PackRun<true>(Bytes(type), parts.parts.size())
                    : PackRun<false>(Bytes(type), parts.parts.size());
  if (d.inst.run == nullptr) d.Unknown();
  const size_t count = parts.parts.size();
  const Type part = Bytes(type) / count == 2 ? Type::kB16 : Type::kB32;
  d.Push(pack ? d.Target(d.operand(0), type) : d.Source(1, type));
  for (const Operand& one : parts.parts) d.Push(pack ? d.Source(one, part) : d.Target(one, part));
  d.inst.count = static_cast<uint8_t>(count);
}

// What a clock shows: instructions of warps so far.
template <class T>
void ReadClock(Warp& w, const Inst& i, Mask mask) {
  const Counters& counters = w.block->launch->counters;
  const uint64_t now = std::accumulate(counters.warps, counters.warps + kPipes, uint64_t{0});
  T* d = w.At<T>(i.args[0]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = static_cast<T>(now);
}

bool IsClock(const Operand& operand) {
  return operand.name == "%clock" || operand.name == "%clock64" || operand.name == "%globaltimer";
}

void DecodeMove(Decoder& d) {
  const Type type = d.TakeType();
  d.End();
  d.Operands(2);
  if (IsClock(d.operand(1))) {
    d.inst.run = Bytes(type) == 4 ? ReadClock<uint32_t> : ReadClock<uint64_t>;
    if ((Bytes(type) == 4) != (d.operand(1).name == "%clock")) d.Unknown();
    return d.Push(d.Target(d.operand(0), type));
  }
  if (type == Type::kPred) {
    bool negated;
    d.Push(d.PredicateTarget(d.operand(0).name));
    d.Push(d.Predicate(d.operand(1), &negated));
    d.inst.detail = negated;
    d.inst.run = MovePredicate;
    return;
  }
  if (d.operand(1).kind == Operand::kVector) return DecodePack(d, type, true);
  if (d.operand(0).kind == Operand::kVector) return DecodePack(d, type, false);
  d.Push(d.Target(d.operand(0), type));
  d.Push(d.Source(1, type));
  const int bytes = Bytes(type);
  if (bytes < 2) d.Unknown();
  d.inst.run = bytes == 2   ? Map1<Copied, uint16_t>
               : bytes == 4 ? Map1<Copied, uint32_t>
                            : Map1<Copied, uint64_t>;
}

template <bool kInto>
void Window(Warp& w, const Inst& i, Mask mask) {
  uint64_t* d = w.At<uint64_t>(i.args[0]);
  const uint64_t* a = w.At<uint64_t>(i.args[1]);
  const uint64_t base = static_cast<uint64_t>(i.detail) << 40;
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = kInto ? a[l] - base : a[l] + base;
}

void DecodeCvta(Decoder& d) {
  const bool into = d.Has("to");
  uint64_t base = 0;
  if (d.Has("shared")) base = kSharedWindow;
  else if (d.Has("local")) base = kLocalWindow;
  else if (d.Has("param")) base = kParamWindow;
  else if (!d.Has("global") && !d.Has("const")) d.Unknown();
  if (d.TakeType() != Type::kU64) d.Unknown();
  d.End();
  d.Operands(2);
  d.Push(d.Target(d.operand(0), Type::kU64));
  d.Push(d.Source(1, Type::kU64));
  d.inst.detail = static_cast<int>(base >> 40);
  d.inst.run = into ? Window<true> : Window<false>;
}

template <class T>
void Selp(Warp& w, const Inst& i, Mask mask) {
  T* d = w.At<T>(i.args[0]);
  const T *a = w.At<T>(i.args[1]), *b = w.At<T>(i.args[2]);
  const Mask chosen = i.detail ? ~*w.At<Mask>(i.args[3]) : *w.At<Mask>(i.args[3]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = chosen >> l & 1 ? a[l] : b[l];
}

void DecodeSelp(Decoder& d) {
  const Type type = d.TakeType();
  d.End();
  d.Operands(4);
  bool negated;
  d.Push(d.Target(d.operand(0), type));
  d.Push(d.Source(1, type));
  d.Push(d.Source(2, type));
  d.Push(d.Predicate(d.operand(3), &negated));
  d.inst.detail = negated;
  const int bytes = Bytes(type);
  if (bytes < 2) d.Unknown();
  d.inst.run = bytes == 2 ? Selp<uint16_t> : bytes == 4 ? Selp<uint32_t> : Selp<uint64_t>;
}
}  // namespace

void AddMoves(Table* table) {
  (*table)["mov"] = DecodeMove;
  (*table)["selp"] = DecodeSelp;
  (*table)["cvta"] = DecodeCvta;
}

}  // namespace ptx
