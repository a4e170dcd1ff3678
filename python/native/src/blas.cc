#include "blas.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <mutex>
#include <tuple>

#include "cublaslt.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;
namespace lt = cublaslt;

using Blas = Library<lt::Call>;

constexpr int kCuda = kDLCUDA, kDevice = 0;

int type_of(const ffi::String& dtype) {
  return dtype == "float16" ? lt::kHalf : dtype == "bfloat16" ? lt::kBfloat : lt::kFloat;
}

// Bytes of which an address is a multiple, as far as that matters.
uint32_t alignment(const void* address) {
  const auto place = reinterpret_cast<uintptr_t>(address);
  return static_cast<uint32_t>(std::min<uintptr_t>(256, place & (~place + 1)));
}

struct Shape {
  int64_t rows, features, columns, pitch, bytes;
  int type, out_type, epilogue;
  uint32_t of_w, of_x, of_c, of_out;  // alignments

  auto key() const {
    return std::tie(rows, features, columns, pitch, bytes, type, out_type, epilogue, of_w, of_x,
                    of_c, of_out);
  }
  bool operator<(const Shape& other) const { return key() < other.key(); }
};

// How products of a shape are computed.
struct Plan {
  Handle product = nullptr, w = nullptr, x = nullptr, out = nullptr;
  lt::Choice found{};
  Status status = lt::kSuccess;
};

template <typename Value>
Status set(Status (*function)(Handle, int, const void*, size_t), Handle of, int attribute,
           Value value) {
  return function(of, attribute, &value, sizeof value);
}

Status search(const Blas& library, const Shape& s, Plan* plan) {
  const lt::Call& call = library.call;
  Handle preference = nullptr;
  if (Status status = call.preference(&preference)) return status;
  const std::pair<int, uint32_t> numbers[] = {{lt::kReductions, lt::kReduceSums},
                                              {lt::kAlignmentA, s.of_w},
                                              {lt::kAlignmentB, s.of_x},
                                              {lt::kAlignmentC, s.of_c},
                                              {lt::kAlignmentD, s.of_out}};
  Status status =
      set(call.set_preference, preference, lt::kMostWorkspace, static_cast<uint64_t>(s.bytes));
  for (const auto& [attribute, value] : numbers) {
    if (!status) status = set(call.set_preference, preference, attribute, value);
  }
  int count = 0;
  if (!status) {
    status = call.find(library.handle, plan->product, plan->w, plan->x, plan->out, plan->out,
                       preference, 1, &plan->found, &count);
  }
  call.forget_preference(preference);
  constexpr Status kNotSupported = 15;
  if (!status && count == 0) return kNotSupported;
  return status ? status : plan->found.state;
}

// Matrices are columns one after another there: what is x @ w here is w^T @ x^T, as they lie.
Status make(const Blas& library, const Shape& s, Plan* plan) {
  const lt::Call& call = library.call;
  int epilogue =
      (s.epilogue & kWithRelu ? lt::kRelu : 0) | (s.epilogue & kWithBias ? lt::kBias : 0);
  epilogue = epilogue ? epilogue : lt::kNothing;
  Status status = call.product(&plan->product, lt::kSumsOfFloats, lt::kFloat);
  if (!status) status = set(call.set_product, plan->product, lt::kEpilogue, epilogue);
  if (!status && s.epilogue & kWithBias) {
    status = set(call.set_product, plan->product, lt::kBiasType, s.out_type);
  }
  if (!status) status = call.matrix(&plan->w, s.type, s.features, s.columns, s.pitch);
  if (!status) status = call.matrix(&plan->x, s.type, s.columns, s.rows, s.columns);
  if (!status) status = call.matrix(&plan->out, s.out_type, s.features, s.rows, s.features);
  return status ? status : search(library, s, plan);
}

void forget(const Blas& library, const Plan& plan) {
  if (plan.product) library.call.forget_product(plan.product);
  for (Handle matrix : {plan.w, plan.x, plan.out}) {
    if (matrix) library.call.forget_matrix(matrix);
  }
}

int failed(const Blas& library, const Shape& s, Status status) {
  const std::string size = std::to_string(s.rows) + " x " + std::to_string(s.features) + " x " +
                           std::to_string(s.columns);
  return not_computed(lt::kSought, size, library.call.status_name(status));
}

}  // namespace

int linear(void* x, void* w, void* bias, void* residual, void* out, void* workspace, int64_t bytes,
           int64_t rows, int64_t features, int64_t columns, int64_t pitch, const ffi::String& dtype,
           const ffi::String& out_dtype, int epilogue) {
  static std::mutex mutex;
  static Plans<Shape, Plan> plans;
  const Blas& library = tvm_sparse::library<lt::Call>(lt::kSought);
  if (!library.problem.empty()) return 1;
  const void* c = epilogue & kWithResidual ? residual : out;
  const Shape shape{rows,           features,           columns,  pitch,        bytes,
                    type_of(dtype), type_of(out_dtype), epilogue, alignment(w), alignment(x),
                    alignment(c),   alignment(out)};
  std::lock_guard<std::mutex> lock(mutex);
  auto [kept, is_new] = plans.of(shape, [&](const Plan& plan) { forget(library, plan); });
  Plan& plan = *kept;
  if (is_new && (plan.status = make(library, shape, &plan))) {
    return failed(library, shape, plan.status);
  }
  if (plan.status) return 1;
  const float one = 1, beta = epilogue & kWithResidual ? 1 : 0;
  Status status = lt::kSuccess;
  if (epilogue & kWithBias) {
    status = set(library.call.set_product, plan.product, lt::kBiasPointer, bias);
  }
  if (!status) {
    status = library.call.multiply(library.handle, plan.product, &one, w, plan.w, x, plan.x, &beta,
                                   c, plan.out, out, plan.out, &plan.found.algorithm, workspace,
                                   plan.found.workspace, TVMFFIEnvGetStream(kCuda, kDevice));
  }
  if (!status) return 0;
  plan.status = status;
  return failed(library, shape, status);
}

ffi::Array<ffi::String> blas_library(const ffi::Array<ffi::String>& folders) {
  return told(library<lt::Call>(lt::kSought, names_of(folders)));
}

}  // namespace tvm_sparse
