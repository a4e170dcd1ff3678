// libcusparseLt.so.0 without a GPU: 2:4 products computed one by one on the CPU, after a look at
// all that a caller may do wrong. Names and numbers are those of cusparseLt.h of 0.7.1 to 0.10.0.
//
// FAKE_CUSPARSELT makes it fail: "old" (its version), "start" (a handle), "memory" (compressed
// weights take more than there is), "compress" (no weights are compressed), "plan" (no product is
// planned), "room" (all want more workspace than anybody has) or "multiply" (every product fails).
//
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

#include "../executor/api.h"
#include "cuda_abi.h"
#include "numbers.h"
#include "quads.h"

namespace {

using library::Load, library::Store;
using namespace quads;

enum Status {
  kDone = 0,
  kNotInitialized = 1,
  kNoMemory = 2,
  kInvalid = 3,
  kFailed = 6,
  kUnsupported = 10
};
constexpr int kAsIs = 0, kTransposed = 1, kComputeFloat = 2, kBiasPointer = 8;
constexpr uint64_t kAligned = 16, kUsed = 1 << 16;

bool Fails(const char* how) { return library::Fails("FAKE_CUSPARSELT", how); }

// What callers have memory for: a mark says what lies there.
enum Mark : uint64_t { kLibrary = kMatrix + 1, kProduct, kSelection, kPlan };

struct Library {
  uint64_t mark = kLibrary;
};

struct Product {
  uint64_t mark = kProduct;
  Matrix a, b, c, d;
  int of_a, of_b, sums;
  const void* bias = nullptr;

  bool Fits() const {
    const bool sound = a.Sound() && b.Sound() && c.Sound() && d.Sound() && a.sparse && !b.sparse;
    const int64_t inner = of_b == kTransposed ? b.columns : b.rows;
    const int64_t outer = of_b == kTransposed ? b.rows : b.columns;
    return sound && of_a == kAsIs && (of_b == kAsIs || of_b == kTransposed) &&
           sums == kComputeFloat && a.order == b.order && a.type == b.type && a.type == d.type &&
           c.Like(d) && inner == a.columns && d.rows == a.rows && d.columns == outer;
  }
};

struct Selection {
  uint64_t mark = kSelection;
};

struct Plan {
  uint64_t mark = kPlan;
  Product product;
};

template <typename Made>
bool Is(Handle made, uint64_t mark) {
  return made && reinterpret_cast<uintptr_t>(made) % kAligned == 0 &&
         static_cast<const Made*>(made)->mark == mark;
}

template <typename Made>
const Made& As(Handle made) {
  return *static_cast<const Made*>(made);
}

bool Aligned(const void* place) { return reinterpret_cast<uintptr_t>(place) % kAligned == 0; }

// What a product needs once it runs: pointers and a copy of all that describes them.
struct Work {
  Product product;
  const void *left, *right, *added;
  void *out, *workspace;
  float alpha, beta;

  bool Readable() const {
    const Product& p = product;
    const uint64_t bytes = CompressedBytes(p.a);
    if (!ts_ptx_holds(left, bytes, 1)) return false;
    const Header& header = *static_cast<const Header*>(left);
    return header.mark == Header().mark && header.rows == p.a.rows &&
           header.columns == p.a.columns && header.type == p.a.type &&
           ts_ptx_holds(right, p.b.Size(), 1) && ts_ptx_holds(out, p.d.Size(), 0) &&
           (beta == 0 || ts_ptx_holds(added, p.c.Size(), 1)) &&
           (!p.bias || ts_ptx_holds(p.bias, static_cast<uint64_t>(p.d.rows) * kBytes, 1)) &&
           ts_ptx_holds(workspace, kUsed, 0);
  }

  double Sum(int64_t i, int64_t j) const {
    const Product& p = product;
    const auto* values = static_cast<const char*>(left) + sizeof(Header);
    const auto* columns = reinterpret_cast<const uint8_t*>(values + Values(p.a) * kBytes);
    const int64_t stored = p.a.columns / static_cast<int64_t>(kQuad / kKept);
    double sum = 0;
    for (int64_t k = 0; k < stored; ++k) {
      const auto at = static_cast<uint64_t>(i * stored + k);
      const int64_t column =
          k / static_cast<int64_t>(kKept) * static_cast<int64_t>(kQuad) + columns[at];
      const uint64_t from = p.of_b == kTransposed ? p.b.At(j, column) : p.b.At(column, j);
      sum += Load(values, p.a.type, at) * Load(right, p.b.type, from);
    }
    return sum;
  }

  int operator()() const {
    if (!Readable()) return kLaunchFailed;
    std::memset(workspace, 0xff, kUsed);  // a library leaves what it likes there
    const Product& p = product;
    for (int64_t i = 0; i < p.d.rows; ++i) {
      for (int64_t j = 0; j < p.d.columns; ++j) {
        const uint64_t at = p.d.At(i, j);
        double value = alpha * Sum(i, j);
        if (beta != 0) value += beta * Load(added, p.c.type, at);
        if (p.bias) value += Load(p.bias, p.d.type, static_cast<uint64_t>(i));
        Store(out, p.d.type, at, value);
        ts_ptx_wrote(static_cast<char*>(out) + at * kBytes, kBytes);
      }
    }
    return kSuccess;
  }
};

int Described(Handle library, Handle matrix, const Matrix& made, uint32_t alignment) {
  if (!Is<Library>(library, kLibrary) || !matrix || !Aligned(matrix) || alignment != kAligned) {
    return kInvalid;
  }
  *static_cast<Matrix*>(matrix) = made;
  return made.Sound() ? kDone : kInvalid;
}

}  // namespace

extern "C" {

int cusparseLtGetProperty(int which, int* value) {
  const int version[] = {0, Fails("old") ? 6 : 10, 0};
  if (which < 0 || which > 2) return kInvalid;
  return *value = version[which], kDone;
}

const char* cusparseLtGetErrorName(int status) {
  switch (status) {
    case kDone: return "CUSPARSE_STATUS_SUCCESS";
    case kNotInitialized: return "CUSPARSE_STATUS_NOT_INITIALIZED";
    case kNoMemory: return "CUSPARSE_STATUS_ALLOC_FAILED";
    case kInvalid: return "CUSPARSE_STATUS_INVALID_VALUE";
    case kUnsupported: return "CUSPARSE_STATUS_NOT_SUPPORTED";
    default: return "CUSPARSE_STATUS_EXECUTION_FAILED";
  }
}

int cusparseLtInit(Handle handle) {
  if (Fails("start")) return kNotInitialized;
  return new (handle) Library, kDone;
}

int cusparseLtStructuredDescriptorInit(Handle library, Handle matrix, int64_t rows, int64_t columns,
                                       int64_t pitch, uint32_t alignment, int type, int order,
                                       int sparsity) {
  if (sparsity != 0) return kInvalid;
  return Described(library, matrix, {kMatrix, rows, columns, pitch, type, order, true}, alignment);
}

int cusparseLtDenseDescriptorInit(Handle library, Handle matrix, int64_t rows, int64_t columns,
                                  int64_t pitch, uint32_t alignment, int type, int order) {
  return Described(library, matrix, {kMatrix, rows, columns, pitch, type, order, false}, alignment);
}

int cusparseLtMatDescriptorDestroy(Handle matrix) {
  if (!Is<Matrix>(matrix, kMatrix)) return kInvalid;
  static_cast<Matrix*>(matrix)->mark = 0;
  return kDone;
}

int cusparseLtMatmulDescriptorInit(Handle library, Handle product, int of_a, int of_b, Handle a,
                                   Handle b, Handle c, Handle d, int sums) {
  for (Handle one : {a, b, c, d}) {
    if (!Is<Matrix>(one, kMatrix)) return kInvalid;
  }
  if (!Is<Library>(library, kLibrary) || !product || !Aligned(product)) return kInvalid;
  const Product made{kProduct,      As<Matrix>(a), As<Matrix>(b), As<Matrix>(c),
                     As<Matrix>(d), of_a,          of_b,          sums};
  *static_cast<Product*>(product) = made;
  return made.Fits() ? kDone : kInvalid;
}

int cusparseLtMatmulDescSetAttribute(Handle library, Handle product, int attribute,
                                     const void* value, size_t bytes) {
  const bool there = Is<Library>(library, kLibrary) && Is<Product>(product, kProduct);
  if (!there || attribute != kBiasPointer || bytes != sizeof(void*)) return kInvalid;
  std::memcpy(&static_cast<Product*>(product)->bias, value, bytes);
  return kDone;
}

int cusparseLtMatmulAlgSelectionInit(Handle library, Handle selection, Handle product, int which) {
  const bool there = Is<Library>(library, kLibrary) && Is<Product>(product, kProduct);
  if (!there || which != 0 || !selection || !Aligned(selection)) return kInvalid;
  return new (selection) Selection, kDone;
}

// A plan has what the product was when it was made: what is set later changes nothing.
int cusparseLtMatmulPlanInit(Handle library, Handle plan, Handle product, Handle selection) {
  const bool there = Is<Library>(library, kLibrary) && Is<Product>(product, kProduct) &&
                     Is<Selection>(selection, kSelection);
  if (!there || !plan || !Aligned(plan)) return kInvalid;
  if (Fails("plan")) return kUnsupported;
  *static_cast<Plan*>(plan) = {kPlan, As<Product>(product)};
  return kDone;
}

int cusparseLtMatmulPlanDestroy(Handle plan) {
  if (!Is<Plan>(plan, kPlan)) return kInvalid;
  static_cast<Plan*>(plan)->mark = 0;
  return kDone;
}

int cusparseLtMatmulGetWorkspace(Handle library, Handle plan, size_t* bytes) {
  if (!Is<Library>(library, kLibrary) || !Is<Plan>(plan, kPlan)) return kInvalid;
  *bytes = Fails("room") ? size_t{1} << 40 : kUsed;
  return kDone;
}

int cusparseLtSpMMACompressedSize2(Handle library, Handle matrix, size_t* compressed,
                                   size_t* buffer) {
  if (!Is<Library>(library, kLibrary) || !Is<Matrix>(matrix, kMatrix)) return kInvalid;
  if (!As<Matrix>(matrix).sparse) return kInvalid;
  *compressed = Fails("memory") ? size_t{1} << 50 : CompressedBytes(As<Matrix>(matrix));
  *buffer = kUsed;
  return kDone;
}

int cusparseLtSpMMACompress2(Handle library, Handle matrix, int is_left, int operation,
                             const void* dense, void* compressed, void* buffer, Handle stream) {
  const bool there = Is<Library>(library, kLibrary) && Is<Matrix>(matrix, kMatrix);
  if (!there || is_left != 1 || operation != kAsIs || !Aligned(dense) || !Aligned(compressed)) {
    return kInvalid;
  }
  if (Fails("compress")) return kFailed;
  const Matrix of = As<Matrix>(matrix);
  ts_note_stream(stream, "compression");
  const auto work = [=] { return Compress(of, dense, compressed, buffer, kUsed); };
  return of.sparse && ts_do(stream, work) == kSuccess ? kDone : kFailed;
}

int cusparseLtMatmul(Handle library, Handle plan, const void* alpha, const void* a, const void* b,
                     const void* beta, const void* c, void* d, void* workspace, Handle* streams,
                     int32_t count) {
  if (!Is<Library>(library, kLibrary) || !Is<Plan>(plan, kPlan) || !streams || count != 1) {
    return kInvalid;
  }
  const Work work{
      As<Plan>(plan).product,          a, b, c, d, workspace, *static_cast<const float*>(alpha),
      *static_cast<const float*>(beta)};
  for (const void* place : {a, b, c, static_cast<const void*>(d), work.product.bias}) {
    if (!Aligned(place)) return kInvalid;
  }
  if (Fails("multiply")) return kFailed;
  const Product& p = work.product;
  char line[160];
  std::snprintf(line, sizeof line, "cusparselt %lld %lld %lld type %d %s beta %g %s",
                static_cast<long long>(p.d.columns), static_cast<long long>(p.d.rows),
                static_cast<long long>(p.a.columns), p.a.type, p.bias ? "bias" : "alone", work.beta,
                ts_capturing(streams[0]));
  ts_note(line);
  ts_note_stream(streams[0], "product");
  return ts_do(streams[0], work) == kSuccess ? kDone : kFailed;
}
}
