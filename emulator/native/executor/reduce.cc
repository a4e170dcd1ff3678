// cp.reduce.async.bulk: what a bulk copy does to the elements that lie in global memory.
#include "bulk.h"
#include "combine.h"

namespace ptx {
namespace {

template <class F, class T>
void Each(char* to, const char* from, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + at, sizeof a);
    std::memcpy(&b, from + at, sizeof b);
    a = F::Do(a, b);
    std::memcpy(to + at, &a, sizeof a);
  }
}

Combine SumOf(Type type) {
  switch (type) {
    case Type::kU32:
    case Type::kS32: return Each<Sum, uint32_t>;
    case Type::kU64: return Each<Sum, uint64_t>;
    case Type::kF16: return Each<Sum, Half>;
    case Type::kBF16: return Each<Sum, Bfloat>;
    case Type::kF32: return Each<Sum, float>;
    case Type::kF64: return Each<Sum, double>;
    default: return nullptr;
  }
}

template <class F>
Combine OfIntegers(Type type) {
  switch (type) {
    case Type::kU32: return Each<F, uint32_t>;
    case Type::kS32: return Each<F, int32_t>;
    case Type::kU64: return Each<F, uint64_t>;
    case Type::kS64: return Each<F, int64_t>;
    default: return nullptr;
  }
}

template <class F>
Combine OfBits(Type type) {
  if (type == Type::kB32) return Each<F, uint32_t>;
  return type == Type::kB64 ? Each<F, uint64_t> : nullptr;
}

}  // namespace

Combine TakeCombine(Decoder& d) {
  const bool sum = d.Has("add"), least = d.Has("min"), most = d.Has("max");
  const bool both = d.Has("and"), either = d.Has("or"), one = d.Has("xor");
  const bool denormals = d.Has("noftz");
  const Type type = d.TakeType();
  if ((sum && (type == Type::kF16 || type == Type::kBF16)) != denormals) d.Unknown();
  Combine found = nullptr;
  if (sum) found = SumOf(type);
  else if (least) found = OfIntegers<Least>(type);
  else if (most) found = OfIntegers<Most>(type);
  else if (both) found = OfBits<BothBits>(type);
  else if (either) found = OfBits<EitherBit>(type);
  else if (one) found = OfBits<OneBit>(type);
  if (found == nullptr) d.Unknown();
  return found;
}

}  // namespace ptx
