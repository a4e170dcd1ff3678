#include "dnn.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <mutex>

#include "cudnn.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

using Dnn = Library<cudnn::Call>;

constexpr int kCuda = kDLCUDA, kDevice = 0;
constexpr size_t kAligned = 16;  // bytes of which addresses must be multiples

enum Extent {
  kBatch,
  kHeight,
  kWidth,
  kChannels,
  kFeatures,
  kDown,
  kAcross,
  kTop,
  kLeft,
  kStrideDown,
  kStrideAcross,
  kDilationDown,
  kDilationAcross,
  kExtents
};

struct Shape {
  std::array<int, kExtents> extents;
  int64_t bytes;
  int type, epilogue;
  bool aligned;

  auto key() const { return std::tie(extents, bytes, type, epilogue, aligned); }
  bool operator<(const Shape& other) const { return key() < other.key(); }

  int operator[](Extent extent) const { return extents[extent]; }

  // Positions of the result along an axis.
  int positions(Extent input, Extent taps, Extent border, Extent stride, Extent dilation) const {
    const int reach = extents[dilation] * (extents[taps] - 1) + 1;
    return (extents[input] + 2 * extents[border] - reach) / extents[stride] + 1;
  }
};

// How convolutions of a shape are computed.
struct Plan {
  Handle x = nullptr, w = nullptr, window = nullptr, y = nullptr, bias = nullptr, after = nullptr;
  int algorithm = 0;
  size_t workspace = 0;
  Status status = 0;
};

int type_of(const ffi::String& dtype) {
  return dtype == "float16" ? cudnn::kHalf : dtype == "bfloat16" ? cudnn::kBfloat : cudnn::kFloat;
}

// Sums without transforms of tiles, which would round in between: they are also the only ones whose
// filters have channels last. Without a ReLU, results with a bias come from one of them alone.
bool allowed(const Shape& s, int algorithm) {
  const bool any = !(s.epilogue & kWithBias) || s.epilogue & kWithRelu;
  return algorithm == cudnn::kPrecomputed || (any && algorithm == cudnn::kImplicit);
}

Status search(const Dnn& library, const Shape& s, Plan* plan) {
  const cudnn::Call& call = library.call;
  cudnn::Choice found[cudnn::kAlgorithms];
  int count = 0;
  Status status = call.find(library.handle, plan->x, plan->w, plan->window, plan->y,
                            cudnn::kAlgorithms, &count, found);
  for (int i = 0; !status && i < count; ++i) {
    if (found[i].state || !allowed(s, found[i].algorithm)) continue;
    // Products of floats are never rounded, whatever the library would rather do.
    if (s.type != cudnn::kFloat) status = call.set_math(plan->window, found[i].math);
    if (!status) {
      status = call.room(library.handle, plan->x, plan->w, plan->window, plan->y,
                         found[i].algorithm, &plan->workspace);
    }
    plan->algorithm = found[i].algorithm;
    if (status || plan->workspace <= static_cast<size_t>(s.bytes)) return status;
  }
  return status ? status : cudnn::kNotSupported;
}

Status make(const Dnn& library, const Shape& s, Plan* plan) {
  const cudnn::Call& call = library.call;
  if (!s.aligned) return cudnn::kMisaligned;
  const int down = s.positions(kHeight, kDown, kTop, kStrideDown, kDilationDown);
  const int across = s.positions(kWidth, kAcross, kLeft, kStrideAcross, kDilationAcross);
  constexpr int kLast = cudnn::kChannelsLast;
  Status status = call.tensor(&plan->x);
  const auto then = [&](auto function, auto... arguments) {
    if (!status) status = function(arguments...);
  };
  then(call.set_tensor, plan->x, kLast, s.type, s[kBatch], s[kChannels], s[kHeight], s[kWidth]);
  then(call.filter, &plan->w);
  then(call.set_filter, plan->w, s.type, kLast, s[kFeatures], s[kChannels], s[kDown], s[kAcross]);
  then(call.window, &plan->window);
  then(call.set_window, plan->window, s[kTop], s[kLeft], s[kStrideDown], s[kStrideAcross],
       s[kDilationDown], s[kDilationAcross], cudnn::kCorrelation, cudnn::kFloat);
  then(call.set_math, plan->window,
       s.type == cudnn::kFloat ? cudnn::kMultiplyAdds : cudnn::kTensorCores);
  then(call.tensor, &plan->y);
  then(call.set_tensor, plan->y, kLast, s.type, s[kBatch], s[kFeatures], down, across);
  then(call.tensor, &plan->bias);
  then(call.set_tensor, plan->bias, kLast, s.type, 1, s[kFeatures], 1, 1);
  then(call.activation, &plan->after);
  then(call.set_activation, plan->after, s.epilogue & kWithRelu ? cudnn::kRelu : cudnn::kIdentity,
       cudnn::kPropagateNan, 0.0);
  return status ? status : search(library, s, plan);
}

void forget(const Dnn& library, const Plan& plan) {
  const cudnn::Call& call = library.call;
  for (Handle tensor : {plan.x, plan.y, plan.bias}) {
    if (tensor) call.forget_tensor(tensor);
  }
  if (plan.w) call.forget_filter(plan.w);
  if (plan.window) call.forget_window(plan.window);
  if (plan.after) call.forget_activation(plan.after);
}

int failed(const Dnn& library, const Shape& s, Status status) {
  std::string size;
  for (Extent extent : {kBatch, kHeight, kWidth, kChannels}) {
    size += (size.empty() ? "" : " x ") + std::to_string(s[extent]);
  }
  size += " to " + std::to_string(s[kFeatures]) + " features, " + std::to_string(s[kDown]) + " x " +
          std::to_string(s[kAcross]) + " taps";
  return not_computed(cudnn::kSought, size, library.call.status_name(status));
}

struct Operands {
  void *x, *w, *bias, *residual, *out, *workspace;

  bool are_aligned(int epilogue) const {
    return aligned(kAligned, x, w, out, epilogue & kWithBias ? bias : out,
                   epilogue & kWithResidual ? residual : out);
  }
};

Status convolved(const Dnn& library, const Shape& s, const Plan& plan, const Operands& on) {
  const cudnn::Call& call = library.call;
  const float one = 1, zero = 0;
  Status status = call.set_stream(library.handle, TVMFFIEnvGetStream(kCuda, kDevice));
  if (status) return status;
  if (!(s.epilogue & kWithBias)) {
    return call.convolve(library.handle, &one, plan.x, on.x, plan.w, on.w, plan.window,
                         plan.algorithm, on.workspace, plan.workspace, &zero, plan.y, on.out);
  }
  const bool added = s.epilogue & kWithResidual;
  return call.convolve_more(library.handle, &one, plan.x, on.x, plan.w, on.w, plan.window,
                            plan.algorithm, on.workspace, plan.workspace, added ? &one : &zero,
                            plan.y, added ? on.residual : on.out, plan.bias, on.bias, plan.after,
                            plan.y, on.out);
}

int computed(const Dnn& library, const Shape& shape, const Operands& on) {
  static std::mutex mutex;
  static Plans<Shape, Plan> plans;
  std::lock_guard<std::mutex> lock(mutex);
  auto [plan, is_new] = plans.of(shape, [&](const Plan& old) { forget(library, old); });
  if (!is_new && plan->status) return 1;
  if (is_new) plan->status = make(library, shape, plan);
  if (!plan->status) plan->status = convolved(library, shape, *plan, on);
  return plan->status ? failed(library, shape, plan->status) : 0;
}

}  // namespace

void convolution(ffi::PackedArgs arguments, ffi::Any* result) {
  const Dnn& library = tvm_sparse::library<cudnn::Call>(cudnn::kSought);
  *result = int64_t{1};
  if (!library.problem.empty()) return;
  int next = 0;
  const auto place = [&] { return arguments[next++].cast<void*>(); };
  const auto number = [&] { return arguments[next++].cast<int64_t>(); };
  Operands on{};
  for (void** one : {&on.x, &on.w, &on.bias, &on.residual, &on.out, &on.workspace}) *one = place();
  Shape shape{};
  shape.bytes = number();
  for (int& extent : shape.extents) {
    const int64_t whole = number();
    if (whole > std::numeric_limits<int>::max()) return;
    extent = static_cast<int>(whole);
  }
  shape.type = type_of(arguments[next].cast<ffi::String>());
  const bool mixed = arguments[next].cast<ffi::String>() != arguments[next + 1].cast<ffi::String>();
  next += 2;
  shape.epilogue = static_cast<int>(number());
  shape.aligned = on.are_aligned(shape.epilogue);
  if (mixed) return;
  *result = int64_t{computed(library, shape, on)};
}

ffi::Array<ffi::String> dnn_library(const ffi::Array<ffi::String>& folders) {
  return told(library<cudnn::Call>(cudnn::kSought, names_of(folders)));
}

}  // namespace tvm_sparse
