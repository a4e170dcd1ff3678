// Integers with a carry: add.cc, addc, sub.cc, subc, mad.cc, madc.
#include "integers.h"

namespace ptx {
namespace {

template <class T>
struct Wide;
template <>
struct Wide<uint32_t> {
  using type = uint64_t;
};
template <>
struct Wide<uint64_t> {
  using type = unsigned __int128;
};

// What the carry is added to, or borrowed from; all that is above T's bits is the carry behind it.
struct Sum {
  static constexpr int kSources = 2;
  template <class U, class T>
  static U Do(T a, T b, T, U carry) {
    return U(a) + b + carry;
  }
};
struct Difference {
  static constexpr int kSources = 2;
  template <class U, class T>
  static U Do(T a, T b, T, U carry) {
    return U(a) - b - carry;
  }
};
struct LowProduct {
  static constexpr int kSources = 3;
  template <class U, class T>
  static U Do(T a, T b, T c, U carry) {
    return U(static_cast<T>(U(a) * b)) + c + carry;
  }
};
struct HighProduct {
  static constexpr int kSources = 3;
  template <class U, class T>
  static U Do(T a, T b, T c, U carry) {
    return (U(a) * b >> 8 * sizeof(T)) + c + carry;
  }
};

// Arguments: target, sources, the carry, and where `detail` says so the carry that is written.
template <class F, class T, bool kIn>
void Carried(Warp& w, const Inst& i, Mask mask) {
  using U = typename Wide<T>::type;
  T* d = w.At<T>(i.args[0]);
  const T *a = w.At<T>(i.args[1]), *b = w.At<T>(i.args[2]);
  const T* c = w.At<T>(i.args[F::kSources]);  // the second one again where there is no third
  Mask* flags = w.At<Mask>(i.args[F::kSources + 1]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const U found = F::template Do<U, T>(a[l], b[l], c[l], kIn ? *flags >> l & 1 : 0);
    d[l] = static_cast<T>(found);
    if (!i.detail) continue;
    const Mask out = static_cast<Mask>(found >> 8 * sizeof(T) & 1) << l;
    *flags = (*flags & ~(Mask{1} << l)) | out;
  }
}

template <class F, bool kIn>
void DecodeCarried(Decoder& d, bool out) {
  const Type type = d.TakeType();
  Run run = nullptr;
  const bool whole = F::kSources == 2;  // signed products have other high halves
  if (type == Type::kU32 || (whole && type == Type::kS32)) run = Carried<F, uint32_t, kIn>;
  if (type == Type::kU64 || (whole && type == Type::kS64)) run = Carried<F, uint64_t, kIn>;
  Uniform(d, type, F::kSources, run, kAlu);
  d.Push(d.builder.Carry());
  d.inst.detail = out;
}

template <bool kIn>
void DecodeProduct(Decoder& d, bool out) {
  if (d.Has("lo")) return DecodeCarried<LowProduct, kIn>(d, out);
  if (!d.Has("hi")) d.Unknown();
  DecodeCarried<HighProduct, kIn>(d, out);
}

}  // namespace

void AddCarries(Table* table) {
  Table& t = *table;
  using Made = void (*)(Decoder&, bool);
  const auto writes = [&t](const char* name, Made made) {
    const Decode plain = t[name];
    t[name] = [plain, made](Decoder& d) { d.Has("cc") ? made(d, true) : plain(d); };
  };
  const auto reads = [&t](const char* name, Made made) {
    t[name] = [made](Decoder& d) { made(d, d.Has("cc")); };
  };
  writes("add", DecodeCarried<Sum, false>);
  reads("addc", DecodeCarried<Sum, true>);
  writes("sub", DecodeCarried<Difference, false>);
  reads("subc", DecodeCarried<Difference, true>);
  writes("mad", DecodeProduct<false>);
  reads("madc", DecodeProduct<true>);
}

}  // namespace ptx
