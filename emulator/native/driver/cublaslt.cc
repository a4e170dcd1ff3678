// libcublasLt.so.13 without a GPU: products computed one by one on the CPU, after a look at all
// that a caller may do wrong. Names and numbers are those of cublasLt.h.
//
// FAKE_CUBLASLT makes it fail: "old" (its version), "start" (a handle), "find" (every product is
// unsupported) or "multiply" (every product fails).
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "../executor/api.h"
#include "cuda_abi.h"
#include "numbers.h"

namespace {

using library::Bytes, library::kFloat, library::kHalf, library::Load, library::Store;

enum Status { kDone = 0, kNotInitialized = 1, kInvalid = 7, kFailed = 13, kUnsupported = 15 };
constexpr int kBfloat = 14;
constexpr int kComputeFloat = 68;
constexpr int kRelu = 2, kBias = 4;

struct Product {
  int sums, scale, transposed[2] = {0, 0}, epilogue = 1, bias_type = -1;
  const void* bias = nullptr;
};

struct Matrix {
  int type;
  uint64_t rows, columns;
  int64_t pitch;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

struct Algorithm {  // 64 bytes in all
  uint64_t m, n, k, workspace;
  uint32_t alignment[4];
  uint64_t mark, unused;
};
constexpr uint64_t kMark = 0x7473626c61736c74;

struct Found {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

bool Fails(const char* how) { return library::Fails("FAKE_CUBLASLT", how); }

uint64_t Bytes(const Matrix& m) {
  return ((m.columns - 1) * static_cast<uint64_t>(m.pitch) + m.rows) * Bytes(m.type);
}

// Whether columns of `m` lie apart and its type is known.
bool Sound(const Matrix& m) {
  const bool known = m.type == kFloat || m.type == kHalf || m.type == kBfloat;
  return known && m.rows > 0 && m.columns > 0 && m.pitch >= static_cast<int64_t>(m.rows);
}

bool Fits(const Product& p, const Matrix& a, const Matrix& b, const Matrix& c, const Matrix& d) {
  const bool types = a.type == b.type && c.type == d.type && (d.type == a.type || d.type == kFloat);
  const bool sizes = a.columns == b.rows && d.rows == a.rows && d.columns == b.columns &&
                     c.rows == d.rows && c.columns == d.columns;
  const bool plain = !p.transposed[0] && !p.transposed[1];
  const bool known = p.epilogue == 1 || p.epilogue == kRelu || p.epilogue == kBias ||
                     p.epilogue == (kRelu | kBias);
  const bool bias = !(p.epilogue & kBias) || p.bias_type == -1 || p.bias_type == d.type;
  return p.sums == kComputeFloat && p.scale == kFloat && Sound(a) && Sound(b) && Sound(c) &&
         Sound(d) && types && sizes && plain && known && bias;
}

// What a product needs once it runs: pointers and a copy of all that describes them.
struct Work {
  Product product;
  Matrix a, b, c, d;
  const void *left, *right, *added;
  void *out, *workspace;
  float alpha, beta;
  Algorithm algorithm;

  bool Readable() const {
    return ts_ptx_holds(left, Bytes(a), 1) && ts_ptx_holds(right, Bytes(b), 1) &&
           ts_ptx_holds(out, Bytes(d), 0) && (beta == 0 || ts_ptx_holds(added, Bytes(c), 1)) &&
           (!(product.epilogue & kBias) || ts_ptx_holds(product.bias, d.rows * Bytes(d.type), 1)) &&
           (!algorithm.workspace || ts_ptx_holds(workspace, algorithm.workspace, 0));
  }

  double Element(uint64_t i, uint64_t j) const {
    double sum = 0;
    for (uint64_t k = 0; k < a.columns; ++k) {
      sum += Load(left, a.type, i + k * static_cast<uint64_t>(a.pitch)) *
             Load(right, b.type, k + j * static_cast<uint64_t>(b.pitch));
    }
    sum *= alpha;
    if (beta != 0) sum += beta * Load(added, c.type, i + j * static_cast<uint64_t>(c.pitch));
    if (product.epilogue & kBias) sum += Load(product.bias, d.type, i);
    return product.epilogue & kRelu && sum < 0 ? 0 : sum;
  }

  int operator()() const {
    if (!Readable()) return kLaunchFailed;
    // A library leaves what it likes in its workspace.
    if (algorithm.workspace) std::memset(workspace, 0xff, algorithm.workspace);
    for (uint64_t j = 0; j < d.columns; ++j) {
      for (uint64_t i = 0; i < d.rows; ++i) {
        const uint64_t at = i + j * static_cast<uint64_t>(d.pitch);
        Store(out, d.type, at, Element(i, j));
        ts_ptx_wrote(static_cast<char*>(out) + at * Bytes(d.type), Bytes(d.type));
      }
    }
    return kSuccess;
  }
};

bool Aligned(const Work& w) {
  const void* places[] = {w.left, w.right, w.beta != 0 ? w.added : w.out, w.out};
  for (int i = 0; i < 4; ++i) {
    if (reinterpret_cast<uintptr_t>(places[i]) % w.algorithm.alignment[i]) return false;
  }
  return !w.algorithm.workspace || reinterpret_cast<uintptr_t>(w.workspace) % 256 == 0;
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return Fails("old") ? 110800 : 130000; }

const char* cublasLtGetStatusName(int status) {
  switch (status) {
    case kDone: return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kInvalid: return "CUBLAS_STATUS_INVALID_VALUE";
    case kUnsupported: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_EXECUTION_FAILED";
  }
}

int cublasLtCreate(Handle* handle) {
  if (Fails("start")) return kNotInitialized;
  return *handle = std::malloc(1), kDone;
}

int cublasLtMatmulDescCreate(Handle* made, int sums, int scale) {
  return *made = new Product{sums, scale}, kDone;
}

int cublasLtMatmulDescDestroy(Handle product) {
  delete static_cast<Product*>(product);
  return kDone;
}

int cublasLtMatmulDescSetAttribute(Handle product, int attribute, const void* value, size_t bytes) {
  auto* p = static_cast<Product*>(product);
  const auto take = [&](auto* field) {
    if (bytes != sizeof *field) return kInvalid;
    std::memcpy(field, value, bytes);
    return kDone;
  };
  switch (attribute) {
    case 3: return take(&p->transposed[0]);
    case 4: return take(&p->transposed[1]);
    case 7: return take(&p->epilogue);
    case 8: return take(&p->bias);
    case 26: return take(&p->bias_type);
    default: return kUnsupported;
  }
}

int cublasLtMatrixLayoutCreate(Handle* made, int type, uint64_t rows, uint64_t columns,
                               int64_t pitch) {
  return *made = new Matrix{type, rows, columns, pitch}, kDone;
}

int cublasLtMatrixLayoutDestroy(Handle matrix) {
  delete static_cast<Matrix*>(matrix);
  return kDone;
}

int cublasLtMatmulPreferenceCreate(Handle* made) { return *made = new Preference, kDone; }

int cublasLtMatmulPreferenceDestroy(Handle preference) {
  delete static_cast<Preference*>(preference);
  return kDone;
}

int cublasLtMatmulPreferenceSetAttribute(Handle preference, int attribute, const void* value,
                                         size_t bytes) {
  auto* p = static_cast<Preference*>(preference);
  if (attribute == 1 && bytes == sizeof p->workspace) {
    std::memcpy(&p->workspace, value, bytes);
  } else if (attribute >= 5 && attribute <= 8 && bytes == sizeof p->alignment[0]) {
    std::memcpy(&p->alignment[attribute - 5], value, bytes);
  } else if (attribute != 3 || bytes != sizeof(uint32_t)) {
    return kInvalid;
  }
  return kDone;
}

int cublasLtMatmulAlgoGetHeuristic(Handle library, Handle product, Handle a, Handle b, Handle c,
                                   Handle d, Handle preference, int most, Found* found,
                                   int* count) {
  const auto& p = *static_cast<Product*>(product);
  const auto &left = *static_cast<Matrix*>(a), &right = *static_cast<Matrix*>(b),
             &added = *static_cast<Matrix*>(c), &out = *static_cast<Matrix*>(d);
  *count = 0;
  if (!library || most < 1 || !Fits(p, left, right, added, out)) return kInvalid;
  if (Fails("find")) return kUnsupported;
  const auto& wanted = *static_cast<Preference*>(preference);
  constexpr uint64_t kUsed = 1 << 16;
  Algorithm made{out.rows, out.columns, left.columns, 0, {}, kMark, 0};
  made.workspace = wanted.workspace < kUsed ? wanted.workspace : kUsed;
  std::memcpy(made.alignment, wanted.alignment, sizeof made.alignment);
  *found = {made, static_cast<size_t>(made.workspace), kDone, 1.0F, {}};
  *count = 1;
  return kDone;
}

int cublasLtMatmul(Handle library, Handle product, const void* alpha, const void* a, Handle of_a,
                   const void* b, Handle of_b, const void* beta, const void* c, Handle of_c,
                   void* d, Handle of_d, const Algorithm* algorithm, void* workspace,
                   size_t workspace_bytes, Handle stream) {
  Work work{*static_cast<Product*>(product),
            *static_cast<Matrix*>(of_a),
            *static_cast<Matrix*>(of_b),
            *static_cast<Matrix*>(of_c),
            *static_cast<Matrix*>(of_d),
            a,
            b,
            c,
            d,
            workspace,
            *static_cast<const float*>(alpha),
            *static_cast<const float*>(beta),
            *algorithm};
  const bool known = algorithm->mark == kMark && algorithm->m == work.d.rows &&
                     algorithm->n == work.d.columns && algorithm->k == work.a.columns;
  const bool bias = !(work.product.epilogue & kBias) || work.product.bias;
  if (!library || !known || !bias || workspace_bytes < algorithm->workspace ||
      !Fits(work.product, work.a, work.b, work.c, work.d) || !Aligned(work)) {
    return kInvalid;
  }
  if (Fails("multiply")) return kFailed;
  char line[160];
  std::snprintf(line, sizeof line, "cublaslt %llu %llu %llu types %d %d epilogue %d beta %g %s",
                static_cast<unsigned long long>(algorithm->n),
                static_cast<unsigned long long>(algorithm->m),
                static_cast<unsigned long long>(algorithm->k), work.a.type, work.d.type,
                work.product.epilogue, work.beta, ts_capturing(stream));
  ts_note(line);
  ts_note_stream(stream, "product");
  return ts_do(stream, work) == kSuccess ? kDone : kFailed;
}
}
