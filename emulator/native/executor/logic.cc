// Bits: and, or, xor, not, shifts.
#include "combine.h"
#include "lanes.h"

namespace ptx {
namespace {

struct Not {
  template <class T>
  static T Do(T a) {
    return static_cast<T>(~a);
  }
};
// Amounts beyond the width shift everything out.
template <class T, bool kLeft>
void Shift(Warp& w, const Inst& i, Mask mask) {
  T* d = w.At<T>(i.args[0]);
  const T* a = w.At<T>(i.args[1]);
  const uint32_t* b = w.At<uint32_t>(i.args[2]);
  constexpr uint32_t kWidth = 8 * sizeof(T);
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const uint32_t by = b[l];
    if (kLeft) d[l] = by >= kWidth ? T(0) : static_cast<T>(a[l] << by);
    else d[l] = static_cast<T>(by >= kWidth ? (a[l] < 0 ? T(-1) : T(0)) : a[l] >> by);
  }
}

// A predicate is a mask, so logic on it is logic on one word.
template <class F>
void PredicateLogic(Warp& w, const Inst& i, Mask mask) {
  Mask* d = w.At<Mask>(i.args[0]);
  *d = (*d & ~mask) | (F::Do(*w.At<Mask>(i.args[1]), *w.At<Mask>(i.args[2])) & mask);
}

void PredicateNot(Warp& w, const Inst& i, Mask mask) {
  Mask* d = w.At<Mask>(i.args[0]);
  *d = (*d & ~mask) | (~*w.At<Mask>(i.args[1]) & mask);
}

template <class F>
void Bitwise(Decoder& d) {
  const Type type = d.TakeType();
  if (type == Type::kPred) return Uniform(d, type, 2, PredicateLogic<F>, kAlu);
  const Run run = type == Type::kB16   ? Map2<F, uint16_t>
                  : type == Type::kB32 ? Map2<F, uint32_t>
                  : type == Type::kB64 ? Map2<F, uint64_t>
                                       : nullptr;
  Uniform(d, type, 2, run, kAlu);
}

void ShiftBy(Decoder& d, bool left) {
  const Type type = d.TakeType();
  Run run = nullptr;
  switch (type) {
    case Type::kB16:
    case Type::kU16: run = left ? Shift<uint16_t, true> : Shift<uint16_t, false>; break;
    case Type::kB32:
    case Type::kU32: run = left ? Shift<uint32_t, true> : Shift<uint32_t, false>; break;
    case Type::kB64:
    case Type::kU64: run = left ? Shift<uint64_t, true> : Shift<uint64_t, false>; break;
    case Type::kS16: run = left ? nullptr : Shift<int16_t, false>; break;
    case Type::kS32: run = left ? nullptr : Shift<int32_t, false>; break;
    case Type::kS64: run = left ? nullptr : Shift<int64_t, false>; break;
    default: break;
  }
  if (run == nullptr) d.Unknown();
  d.End();
  d.Operands(3);
  d.Push(d.Target(d.operand(0), type));
  d.Push(d.Source(1, type));
  d.Push(d.Source(2, Type::kU32));
  d.inst.run = run;
}

}  // namespace

void AddLogic(Table* table) {
  Table& t = *table;
  t["and"] = Bitwise<BothBits>;
  t["or"] = Bitwise<EitherBit>;
  t["xor"] = Bitwise<OneBit>;
  t["not"] = [](Decoder& d) {
    const Type type = d.TakeType();
    const Run run = type == Type::kPred  ? PredicateNot
                    : type == Type::kB16 ? Map1<Not, uint16_t>
                    : type == Type::kB32 ? Map1<Not, uint32_t>
                    : type == Type::kB64 ? Map1<Not, uint64_t>
                                         : nullptr;
    Uniform(d, type, 1, run, kAlu);
  };
  t["shl"] = [](Decoder& d) { ShiftBy(d, true); };
  t["shr"] = [](Decoder& d) { ShiftBy(d, false); };
}

}  // namespace ptx
