#include "two_four.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <memory>
#include <mutex>
#include <tuple>

#include "cusparselt.h"
#include "gpu.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;
namespace lt = cusparselt;

using Sparse = Library<lt::Call>;

constexpr uint32_t kAligned = 16;  // bytes of which addresses must be multiples
constexpr int64_t kRows = 8;       // of which the library takes multiples

std::mutex mutex;

// What a handle without anything behind it points to.
alignas(256) char nothing[256];

// The memory behind a handle.
struct Behind {
  ffi::Optional<ffi::Tensor> memory;

  void AllocData(DLTensor* tensor) {
    tensor->data = memory.has_value() ? memory.value().data_ptr() : nothing;
  }
  void FreeData(DLTensor*) {}
};

ffi::Tensor handle(Behind behind) {
  constexpr DLDataType kByte{kDLUInt, 8, 1};
  return ffi::Tensor::FromNDAlloc(std::move(behind), ffi::Shape({1}), kByte, kGpu);
}

ffi::Tensor room(size_t bytes) {
  return empty_on_gpu(ffi::Shape({static_cast<int64_t>(bytes)}), DLDataType{kDLUInt, 8, 1});
}

void* stream() { return TVMFFIEnvGetStream(kGpu.device_type, kGpu.device_id); }

int type_of(const ffi::String& dtype) { return dtype == "float16" ? lt::kHalf : lt::kBfloat; }

// The matrix of weights, as it lies before the library compresses it.
Status weights(const Sparse& library, Handle matrix, int64_t features, int64_t columns, int type) {
  return library.call.structured(library.handle, matrix, features, columns, columns, kAligned, type,
                                 lt::kRowwise, lt::kHalfZeros);
}

Status compress(const Sparse& library, Handle matrix, const ffi::Tensor& dense, Behind* result) {
  size_t bytes = 0, buffer = 0;
  if (Status status = library.call.sizes(library.handle, matrix, &bytes, &buffer)) return status;
  result->memory = room(bytes);
  const ffi::Tensor used = room(buffer ? buffer : 1);
  return library.call.compress(library.handle, matrix, lt::kLeft, lt::kAsIs, dense.data_ptr(),
                               result->memory.value().data_ptr(), used.data_ptr(), stream());
}

struct Shape {
  int64_t rows, features, columns, bytes;
  int type, epilogue;
  const void* bias;  // it is part of a plan
  bool aligned;

  auto key() const {
    return std::tie(rows, features, columns, bytes, type, epilogue, bias, aligned);
  }
  bool operator<(const Shape& other) const { return key() < other.key(); }
};

// How products of a shape are computed.
struct Plan {
  struct Parts {
    lt::Opaque w, x, out, product, selection, plan;
  };
  std::unique_ptr<Parts> parts;
  bool planned = false;
  Status status = 0;
};

// Matrices are as the weights lie: what is x @ w^T here is (w @ x^T)^T, whose columns are rows.
Status make(const Sparse& library, const Shape& s, Plan* plan) {
  const lt::Call& call = library.call;
  const Handle started = library.handle;
  if (!s.aligned) return lt::kInvalid;
  if (s.rows % kRows || !s.rows) return lt::kNotSupported;
  plan->parts = std::make_unique<Plan::Parts>();
  Plan::Parts& on = *plan->parts;
  Status status = weights(library, &on.w, s.features, s.columns, s.type);
  const auto then = [&](auto function, auto... arguments) {
    if (!status) status = function(started, arguments...);
  };
  then(call.dense, &on.x, s.rows, s.columns, s.columns, kAligned, s.type, lt::kRowwise);
  then(call.dense, &on.out, s.features, s.rows, s.features, kAligned, s.type, lt::kColumnwise);
  then(call.product, &on.product, lt::kAsIs, lt::kTransposed, &on.w, &on.x, &on.out, &on.out,
       lt::kSumsOfFloats);
  if (s.bias) then(call.set_product, &on.product, lt::kBiasPointer, &s.bias, sizeof s.bias);
  then(call.select, &on.selection, &on.product, lt::kDefault);
  then(call.plan, &on.plan, &on.product, &on.selection);
  plan->planned = !status;
  size_t wanted = 0;
  then(call.room, &on.plan, &wanted);
  return !status && wanted > static_cast<size_t>(s.bytes) ? lt::kNotSupported : status;
}

void forget(const Sparse& library, const Plan& plan) {
  if (!plan.planned) return;
  library.call.forget_plan(&plan.parts->plan);
  for (lt::Opaque* matrix : {&plan.parts->w, &plan.parts->x, &plan.parts->out}) {
    library.call.forget_matrix(matrix);
  }
}

struct Operands {
  char *x, *w, *residual, *out;
  void* workspace;

  // Those from a row on.
  Operands from(int64_t row, const Shape& s) const {
    constexpr int64_t kBytes = 2;
    const int64_t behind = kBytes * row * s.features;
    return {x + kBytes * row * s.columns, w, residual ? residual + behind : nullptr, out + behind,
            workspace};
  }
};

int computed(const Sparse& library, Shape s, const Operands& on) {
  static Plans<Shape, Plan> plans;
  s.aligned = aligned(kAligned, on.x, on.w, on.out, on.residual, static_cast<const char*>(s.bias));
  auto [plan, is_new] = plans.of(s, [&](const Plan& old) { forget(library, old); });
  if (!is_new && plan->status) return 1;
  if (is_new) plan->status = make(library, s, plan);
  if (!plan->status) {
    const float one = 1, beta = on.residual ? 1 : 0;
    void* streams[] = {stream()};
    plan->status =
        library.call.multiply(library.handle, &plan->parts->plan, &one, on.w, on.x, &beta,
                              on.residual ? on.residual : on.out, on.out, on.workspace, streams, 1);
  }
  if (!plan->status) return 0;
  const std::string size = std::to_string(s.rows) + " x " + std::to_string(s.features) + " x " +
                           std::to_string(s.columns);
  return not_computed(lt::kSought, size, library.call.status_name(plan->status));
}

}  // namespace

ffi::Tensor compressed(const ffi::Tensor& dense) {
  const Sparse& library = tvm_sparse::library<lt::Call>(lt::kSought);
  if (!library.problem.empty()) return handle({});
  std::lock_guard<std::mutex> lock(mutex);
  lt::Opaque matrix{};
  Behind behind;
  const int64_t features = dense.size(0), columns = dense.size(1);
  const int type = type_of(ffi::DLDataTypeToString(dense.dtype()));
  Status status = weights(library, &matrix, features, columns, type);
  const bool described = !status;
  try {
    if (described) status = compress(library, &matrix, dense, &behind);
  } catch (const ffi::Error&) {
    status = lt::kNoMemory;
  }
  if (described) library.call.forget_matrix(&matrix);
  if (!status) return handle(std::move(behind));
  const std::string size = std::to_string(features) + " x " + std::to_string(columns) + " weights";
  not_computed(lt::kSought, size, library.call.status_name(status));
  return handle({});
}

int two_four_linear(void* x, void* w, void* bias, void* residual, void* out, void* workspace,
                    int64_t bytes, int64_t rows, int64_t features, int64_t columns,
                    const ffi::String& dtype, const ffi::String& out_dtype, int epilogue) {
  const Sparse& library = tvm_sparse::library<lt::Call>(lt::kSought);
  if (!library.problem.empty() || w == nothing || dtype != out_dtype) return 1;
  std::lock_guard<std::mutex> lock(mutex);
  const Shape whole{rows - rows % kRows,
                    features,
                    columns,
                    bytes,
                    type_of(dtype),
                    epilogue,
                    epilogue & kWithBias ? bias : nullptr,
                    false};
  const auto at = [](void* place) { return static_cast<char*>(place); };
  const Operands on{at(x), at(w), epilogue & kWithResidual ? at(residual) : nullptr, at(out),
                    workspace};
  if (int left = computed(library, whole, on)) return left;
  if (rows == whole.rows) return 0;
  Shape last = whole;
  last.rows = kRows;
  return computed(library, last, on.from(rows - kRows, whole));
}

ffi::Array<ffi::String> two_four_library(const ffi::Array<ffi::String>& folders) {
  return told(library<lt::Call>(lt::kSought, names_of(folders)));
}

}  // namespace tvm_sparse
