// setp, set: comparisons give masks of lanes.
#include "floats.h"

namespace ptx {
namespace {

enum class Test : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan
};
enum class Mix : uint8_t { kNone, kAnd, kOr, kXor };

const std::map<std::string, Test> kTests = {
    {"eq", Test::kEq},   {"ne", Test::kNe},   {"lt", Test::kLt},   {"le", Test::kLe},
    {"gt", Test::kGt},   {"ge", Test::kGe},   {"lo", Test::kLt},   {"ls", Test::kLe},
    {"hi", Test::kGt},   {"hs", Test::kGe},   {"equ", Test::kEqu}, {"neu", Test::kNeu},
    {"ltu", Test::kLtu}, {"leu", Test::kLeu}, {"gtu", Test::kGtu}, {"geu", Test::kGeu},
    {"num", Test::kNum}, {"nan", Test::kNan},
};

template <class T>
bool Holds(Test test, T a, T b) {
  const bool unordered = a != a || b != b;
  switch (test) {
    case Test::kEq: return a == b;
    case Test::kNe: return !unordered && a != b;
    case Test::kLt: return a < b;
    case Test::kLe: return a <= b;
    case Test::kGt: return a > b;
    case Test::kGe: return a >= b;
    case Test::kEqu: return unordered || a == b;
    case Test::kNeu: return a != b;
    case Test::kLtu: return !(a >= b);
    case Test::kLeu: return !(a > b);
    case Test::kGtu: return !(a <= b);
    case Test::kGeu: return !(a < b);
    case Test::kNum: return !unordered;
    case Test::kNan: return unordered;
  }
  return false;
}

struct HalfLanes {
  uint16_t bits;
  float Value() const { return HalfTable()[bits]; }
};
struct BfloatLanes {
  uint16_t bits;
  float Value() const { return BfloatValue(bits); }
};
template <class T>
T Value(T v) {
  return v;
}
inline float Value(HalfLanes v) { return v.Value(); }
inline float Value(BfloatLanes v) { return v.Value(); }

template <class T>
Mask CompareLanes(const Warp& w, const Inst& i, Test test) {
  const T *a = w.At<T>(i.args[2]), *b = w.At<T>(i.args[3]);
  Mask found = 0;
  for (int l = 0; l < kLanes; ++l)
    found |= static_cast<Mask>(Holds(test, Value(a[l]), Value(b[l]))) << l;
  return found;
}

Mask Compare(const Warp& w, const Inst& i, Type type, Test test) {
  switch (type) {
    case Type::kU16:
    case Type::kB16: return CompareLanes<uint16_t>(w, i, test);
    case Type::kS16: return CompareLanes<int16_t>(w, i, test);
    case Type::kU32:
    case Type::kB32: return CompareLanes<uint32_t>(w, i, test);
    case Type::kS32: return CompareLanes<int32_t>(w, i, test);
    case Type::kU64:
    case Type::kB64: return CompareLanes<uint64_t>(w, i, test);
    case Type::kS64: return CompareLanes<int64_t>(w, i, test);
    case Type::kF16: return CompareLanes<HalfLanes>(w, i, test);
    case Type::kBF16: return CompareLanes<BfloatLanes>(w, i, test);
    case Type::kF32: return CompareLanes<float>(w, i, test);
    default: return CompareLanes<double>(w, i, test);
  }
}

// Packed into Inst::detail.
struct Question {
  Type type;
  Test test;
  Mix mix;
  bool negated;  // the predicate that is mixed in
  int Packed() const { return int(type) | int(test) << 8 | int(mix) << 16 | int(negated) << 24; }
  static Question Of(int p) {
    return {static_cast<Type>(p & 255), static_cast<Test>(p >> 8 & 255),
            static_cast<Mix>(p >> 16 & 255), (p >> 24 & 1) != 0};
  }
};

Mask Mixed(Mix mix, Mask found, Mask other) {
  switch (mix) {
    case Mix::kAnd: return found & other;
    case Mix::kOr: return found | other;
    case Mix::kXor: return found ^ other;
    default: return found;
  }
}

void Assign(Mask* d, Mask value, Mask mask) { *d = (*d & ~mask) | (value & mask); }

// Arguments: p, q, a, b, c.
void Setp(Warp& w, const Inst& i, Mask mask) {
  const Question q = Question::Of(i.detail);
  const Mask found = Compare(w, i, q.type, q.test);
  Mask other = 0;
  if (q.mix != Mix::kNone) other = q.negated ? ~*w.At<Mask>(i.args[4]) : *w.At<Mask>(i.args[4]);
  Assign(w.At<Mask>(i.args[0]), Mixed(q.mix, found, other), mask);
  if (i.args[1] != kNowhere) Assign(w.At<Mask>(i.args[1]), Mixed(q.mix, ~found, other), mask);
}

Question TakeQuestion(Decoder& d) {
  Question q{Type::kPred, Test::kEq, Mix::kNone, false};
  bool known = false;
  for (const auto& [name, test] : kTests) {
    if (!known && d.Has(name.c_str())) q.test = test, known = true;
  }
  if (!known) d.Unknown();
  if (d.Has("and")) q.mix = Mix::kAnd;
  else if (d.Has("or")) q.mix = Mix::kOr;
  else if (d.Has("xor")) q.mix = Mix::kXor;
  return q;
}

void DecodeSetp(Decoder& d) {
  Question q = TakeQuestion(d);
  q.type = d.TakeType();
  d.End();  // ftz: refused
  d.Operands(q.mix == Mix::kNone ? 3 : 4);
  if (Bytes(q.type) < 2 || q.type == Type::kF16x2 || q.type == Type::kBF16x2) d.Unknown();
  const Operand& targets = d.operand(0);
  d.Push(d.PredicateTarget(targets.name));
  d.Push(targets.second.empty() ? kNowhere : d.PredicateTarget(targets.second));
  d.Push(d.Source(1, q.type));
  d.Push(d.Source(2, q.type));
  if (q.mix != Mix::kNone) d.Push(d.Predicate(d.operand(3), &q.negated));
  d.inst.detail = q.Packed();
  d.inst.run = Setp;
}

// Arguments: d, unused, a, b. True is all ones for integers, 1.0 for floats.
template <class R, R kTrue>
void Set(Warp& w, const Inst& i, Mask mask) {
  const Question q = Question::Of(i.detail);
  const Mask found = Compare(w, i, q.type, q.test);
  R* d = w.At<R>(i.args[0]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = found >> l & 1 ? kTrue : R(0);
}

void DecodeSet(Decoder& d) {
  Question q = TakeQuestion(d);
  const Type to = d.TakeType();
  q.type = d.TakeType();
  d.End();
  d.Operands(3);
  if (q.mix != Mix::kNone || q.type == Type::kF16x2 || q.type == Type::kBF16x2) d.Unknown();
  switch (to) {
    case Type::kU32:
    case Type::kS32: d.inst.run = Set<uint32_t, kAll>; break;
    case Type::kF32: d.inst.run = Set<uint32_t, 0x3f800000u>; break;
    case Type::kF16: d.inst.run = Set<uint16_t, 0x3c00>; break;
    case Type::kBF16: d.inst.run = Set<uint16_t, 0x3f80>; break;
    default: d.Unknown();
  }
  d.Push(d.Target(d.operand(0), to));
  d.Push(kNowhere);
  d.Push(d.Source(1, q.type));
  d.Push(d.Source(2, q.type));
  d.inst.detail = q.Packed();
}

}  // namespace

void AddCompare(Table* table) {
  Table& t = *table;
  t["setp"] = DecodeSetp;
  t["set"] = DecodeSet;
}

}  // namespace ptx
