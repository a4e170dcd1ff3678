// Parts of words: lop3, prmt, bit fields, counts of bits.
#include <algorithm>

#include "lanes.h"

namespace ptx {
namespace {

struct Popc {
  template <class T>
  static uint32_t Do(T a) {
    return __builtin_popcountll(a);
  }
};
struct Clz {
  template <class T>
  static uint32_t Do(T a) {
    return a == 0 ? 8 * sizeof(T) : __builtin_clzll(a) - (64 - 8 * sizeof(T));
  }
};
struct Brev {
  template <class T>
  static T Do(T a) {
    T d = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) d = static_cast<T>(d << 1 | (a >> i & 1));
    return d;
  }
};

// Bit i of the result is the table's bit at a's, b's and c's bit i.
void Lop3(Warp& w, const Inst& i, Mask mask) {
  uint32_t* d = w.At<uint32_t>(i.args[0]);
  const uint32_t *a = w.At<uint32_t>(i.args[1]), *b = w.At<uint32_t>(i.args[2]),
                 *c = w.At<uint32_t>(i.args[3]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    uint32_t found = 0;
    for (int entry = 0; entry < 8; ++entry) {
      if (!(i.detail >> entry & 1)) continue;
      found |= (entry & 4 ? a[l] : ~a[l]) & (entry & 2 ? b[l] : ~b[l]) & (entry & 1 ? c[l] : ~c[l]);
    }
    d[l] = found;
  }
}

// Each nibble of c picks one byte of b (0 to 3) and a (4 to 7), or its sign repeated.
struct Prmt {
  static uint32_t Do(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    uint32_t d = 0;
    for (int i = 0; i < 4; ++i) {
      const uint32_t pick = c >> 4 * i & 15;
      uint32_t byte = bytes >> 8 * (pick & 7) & 0xff;
      if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
      d |= byte << 8 * i;
    }
    return d;
  }
};

// bfe: `length` bits of a from `position` on; the sign is the field's highest bit.
template <class T>
void Extract(Warp& w, const Inst& i, Mask mask) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kWidth = 8 * sizeof(T);
  T* d = w.At<T>(i.args[0]);
  const T* a = w.At<T>(i.args[1]);
  const uint32_t *b = w.At<uint32_t>(i.args[2]), *c = w.At<uint32_t>(i.args[3]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const uint32_t position = b[l] & 0xff, length = c[l] & 0xff;
    const uint32_t last = std::min(position + length - 1, kWidth - 1);
    const bool sign = std::is_signed_v<T> && length > 0 && (U(a[l]) >> last & 1);
    U found = position >= kWidth ? U(0) : U(a[l]) >> position;
    const uint32_t kept = position >= kWidth ? 0 : std::min(length, kWidth - position);
    if (kept < kWidth) {
      const U low = (U(1) << kept) - 1;
      found = (found & low) | (sign ? ~low : U(0));
    }
    d[l] = static_cast<T>(found);
  }
}

// bfi: b with `length` bits from `position` on replaced by the lowest of a.
template <class T>
void Insert(Warp& w, const Inst& i, Mask mask) {
  constexpr uint32_t kWidth = 8 * sizeof(T);
  T* f = w.At<T>(i.args[0]);
  const T *a = w.At<T>(i.args[1]), *b = w.At<T>(i.args[2]);
  const uint32_t *c = w.At<uint32_t>(i.args[3]), *n = w.At<uint32_t>(i.args[4]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const uint32_t position = c[l] & 0xff, length = n[l] & 0xff;
    T field = length >= kWidth ? T(-1) : static_cast<T>((T(1) << length) - 1);
    field = position >= kWidth ? T(0) : static_cast<T>(field << position);
    f[l] =
        (b[l] & ~field) | (position >= kWidth ? T(0) : (static_cast<T>(a[l] << position) & field));
  }
}

void Fields(Decoder& d, bool insert) {
  const Type type = d.TakeType();
  Run run = nullptr;
  if (insert)
    run = type == Type::kB32 ? Insert<uint32_t> : type == Type::kB64 ? Insert<uint64_t> : nullptr;
  else if (type == Type::kU32) run = Extract<uint32_t>;
  else if (type == Type::kS32) run = Extract<int32_t>;
  else if (type == Type::kU64) run = Extract<uint64_t>;
  else if (type == Type::kS64) run = Extract<int64_t>;
  if (run == nullptr) d.Unknown();
  d.End();
  const size_t values = insert ? 3 : 2;
  d.Operands(values + 2);
  d.Push(d.Target(d.operand(0), type));
  for (size_t i = 1; i < values + 2; ++i) d.Push(d.Source(i, i < values ? type : Type::kU32));
  d.inst.run = run;
}

template <class F>
void Count(Decoder& d) {
  const Type type = d.TakeType();
  d.End();
  d.Operands(2);
  if (type != Type::kB32 && type != Type::kB64) d.Unknown();
  d.Push(d.Target(d.operand(0), Type::kU32));
  d.Push(d.Source(1, type));
  d.inst.run = type == Type::kB32 ? Map1<F, uint32_t> : Map1<F, uint64_t, uint32_t>;
}

}  // namespace

void AddFields(Table* table) {
  Table& t = *table;
  t["bfe"] = [](Decoder& d) { Fields(d, false); };
  t["bfi"] = [](Decoder& d) { Fields(d, true); };
  t["popc"] = Count<Popc>;
  t["clz"] = Count<Clz>;
  t["brev"] = [](Decoder& d) {
    const Type type = d.TakeType();
    Uniform(d, type, 1,
            type == Type::kB32   ? Map1<Brev, uint32_t>
            : type == Type::kB64 ? Map1<Brev, uint64_t>
                                 : nullptr,
            kAlu);
  };
  t["prmt"] = [](Decoder& d) {
    const Type type = d.TakeType();
    Uniform(d, type, 3, type == Type::kB32 ? Map3<Prmt, uint32_t> : nullptr, kAlu);
  };
  t["lop3"] = [](Decoder& d) {
    const Type type = d.TakeType();
    d.End();
    d.Operands(5);
    if (type != Type::kB32) d.Unknown();
    d.Push(d.Target(d.operand(0), type));
    for (size_t i = 1; i <= 3; ++i) d.Push(d.Source(i, type));
    d.inst.detail = static_cast<int>(d.Immediate(4) & 0xff);
    d.inst.run = Lop3;
  };
}

}  // namespace ptx
