// cvt: integers and floats of all widths, with rounding, saturation and packing.
#include "conversion.h"

namespace ptx {
namespace {

// Integers: the lowest bytes of the source, extended by its sign, cut to the target.
template <class T, class S, class R>
void Extend(Warp& w, const Inst& i, Mask mask) {
  R* d = w.At<R>(i.args[0]);
  const S* a = w.At<S>(i.args[1]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = static_cast<R>(static_cast<T>(a[l]));
}

uint64_t Raw(const Warp& w, Place place, int wide, int lane) {
  switch (wide) {
    case 2: return w.At<uint16_t>(place)[lane];
    case 4: return w.At<uint32_t>(place)[lane];
    default: return w.At<uint64_t>(place)[lane];
  }
}

void Store(const Warp& w, Place place, int wide, int lane, uint64_t bits) {
  switch (wide) {
    case 2: w.At<uint16_t>(place)[lane] = static_cast<uint16_t>(bits); break;
    case 4: w.At<uint32_t>(place)[lane] = static_cast<uint32_t>(bits); break;
    default: w.At<uint64_t>(place)[lane] = bits;
  }
}

void Convert(Warp& w, const Inst& i, Mask mask) {
  const Form form = BitCast<Form>(i.offset);
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const uint64_t raw = Raw(w, i.args[1], form.wide_from, l);
    uint64_t bits = OfFloat(form.from) ? FromFloat(raw, form) : FromInteger(raw, form);
    const int bytes = Bytes(form.to);
    if (OfSigned(form.to)) bits = static_cast<uint64_t>(SignExtended(bits, bytes));
    else if (bytes < 8) bits &= (uint64_t{1} << 8 * bytes) - 1;
    Store(w, i.args[0], form.wide_to, l, bits);
  }
}

// Two floats into a register: the first is the upper half.
void ConvertPair(Warp& w, const Inst& i, Mask mask) {
  const Form form = BitCast<Form>(i.offset);
  uint32_t* d = w.At<uint32_t>(i.args[0]);
  const uint32_t *a = w.At<uint32_t>(i.args[1]), *b = w.At<uint32_t>(i.args[2]);
  for (int l = 0; l < kLanes; ++l) {
    if (mask >> l & 1)
      d[l] = static_cast<uint32_t>(FromFloat(a[l], form) << 16 | FromFloat(b[l], form));
  }
}

void FloatOfHalf(Warp& w, const Inst& i, Mask mask) {
  float* d = w.At<float>(i.args[0]);
  const uint16_t* a = w.At<uint16_t>(i.args[1]);
  const float* table = HalfTable();
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = table[a[l]];
}

void FloatOfBfloat(Warp& w, const Inst& i, Mask mask) {
  uint32_t* d = w.At<uint32_t>(i.args[0]);
  const uint16_t* a = w.At<uint16_t>(i.args[1]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = static_cast<uint32_t>(a[l]) << 16;
}

Run Fast(const Form& f) {
  if (f.wide_to == 4 && f.wide_from == 2 && !f.saturate && !f.flush && f.to == Type::kF32) {
    return f.from == Type::kF16 ? FloatOfHalf : f.from == Type::kBF16 ? FloatOfBfloat : Convert;
  }
  if (f.saturate || OfFloat(f.to) || OfFloat(f.from)) return Convert;
  if (f.to == Type::kS64 && f.from == Type::kS32 && f.wide_from == 4)
    return Extend<int64_t, int32_t, int64_t>;
  if (f.to == Type::kU64 && f.from == Type::kU32 && f.wide_from == 4)
    return Extend<uint64_t, uint32_t, uint64_t>;
  return Convert;
}

// Which of two conversions between floats cannot lose digits; others must say how to round.
bool Lossless(Type to, Type from) { return Bytes(to) > Bytes(from) || to == from; }

Form TakeForm(Decoder& d) {
  Form form{};
  bool said = true;
  if (d.Has("rni")) form.integral = true;
  else if (d.Has("rzi")) form.integral = true, form.rounding = Rounding::kZero;
  else if (d.Has("rmi")) form.integral = true, form.rounding = Rounding::kDown;
  else if (d.Has("rpi")) form.integral = true, form.rounding = Rounding::kUp;
  else if (d.Has("rz")) form.rounding = Rounding::kZero;
  else if (d.Has("rm")) form.rounding = Rounding::kDown;
  else if (d.Has("rp")) form.rounding = Rounding::kUp;
  else said = d.Has("rn");
  form.saturate = d.Has("sat");
  form.flush = d.Has("ftz");
  form.relu = d.Has("relu");
  form.to = d.TakeType();
  form.from = d.TakeType();
  d.End();
  const bool floats = OfFloat(form.to) && OfFloat(form.from);
  if (form.relu && !floats) d.Unknown();
  if (!OfFloat(form.to) && OfFloat(form.from) && !form.integral) d.Unknown();
  if (OfFloat(form.to) && !OfFloat(form.from) && (!said || form.rounding != Rounding::kNearest))
    d.Unknown();
  if (floats && form.integral && form.to != form.from) d.Unknown();
  if (floats && !said && !Lossless(form.to, form.from)) d.Unknown();
  const bool narrow = form.to != Type::kF32 && !form.integral;
  if (floats && narrow && form.rounding != Rounding::kNearest) d.Unknown();
  return form;
}

void DecodeConvert(Decoder& d) {
  Form form = TakeForm(d);
  if (form.to == Type::kF16x2 || form.to == Type::kBF16x2) {
    if (form.from != Type::kF32) d.Unknown();
    d.Operands(3);
    d.Push(d.Target(d.operand(0), form.to));
    d.Push(d.Source(1, Type::kF32));
    d.Push(d.Source(2, Type::kF32));
    form.to = form.to == Type::kF16x2 ? Type::kF16 : Type::kBF16;
    d.inst.run = ConvertPair;
  } else {
    d.Operands(2);
    const Register to = d.Loose(d.operand(0), form.to), from = d.Loose(d.operand(1), form.from);
    form.wide_to = static_cast<uint8_t>(to.bytes);
    form.wide_from = static_cast<uint8_t>(from.bytes);
    if (form.wide_from < 2 || d.operand(0).kind != Operand::kName) d.Unknown();
    d.Push(to.place);
    d.written.push_back(to.place);
    d.Push(from.place);
    d.inst.run = Fast(form);
  }
  d.inst.pipe = OfFloat(form.to) || OfFloat(form.from) ? kSpecial : kAlu;
  d.inst.offset = BitCast<int64_t>(form);
}

}  // namespace

void AddConvert(Table* table) { (*table)["cvt"] = DecodeConvert; }

}  // namespace ptx
