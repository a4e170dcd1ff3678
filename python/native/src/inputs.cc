#include "inputs.h"

#include <cstdint>

#include "error.h"
#include "extents.h"
#include "gpu.h"
#include "sizes.h"

namespace tvm_sparse {
namespace {

constexpr size_t kAlignment = 64;
constexpr int32_t kMostAxes = 64;  // of a shape that is read though its rank is wrong

Error bad_tensor(const TensorSpec& spec, const std::string& found, const std::string& expected) {
  return Error(TVM_SPARSE_BAD_TENSOR, "input " + spec.name, found, expected);
}

std::string text(const tvm_sparse_tensor& tensor) {
  if (tensor.ndim > kMostAxes) return std::to_string(tensor.ndim) + " dimensions";
  std::string result = "shape (";
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    result += (axis ? ", " : "") + std::to_string(tensor.shape[axis]);
  }
  return result + (tensor.ndim == 1 ? ",)" : ")");
}

// Dtype, rank and fixed extents; binds names on their first use.
void check_shape(const tvm_sparse_tensor& tensor, const TensorSpec& spec, Dims* dims) {
  if (!tensor.dtype || tensor.ndim < 0 || (tensor.ndim && !tensor.shape)) {
    throw bad_tensor(spec, "no dtype or no shape", spec.text());
  }
  if (tensor.dtype != spec.dtype) {
    throw bad_tensor(spec, std::string("dtype ") + tensor.dtype, "dtype " + spec.dtype);
  }
  if (static_cast<size_t>(tensor.ndim) != spec.shape.size()) {
    throw bad_tensor(spec, text(tensor),
                     std::to_string(spec.shape.size()) + " dimensions, " + spec.text());
  }
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    const Extent& expected = spec.shape[static_cast<size_t>(axis)];
    int64_t length = tensor.shape[axis];
    int64_t wanted = expected.length;
    if (!expected.symbol.empty() && length >= 0) {
      std::string needed = bind(expected.symbol, length, dims);
      if (!needed.empty()) {
        throw bad_tensor(
            spec, text(tensor) + ", " + std::to_string(length) + " on axis " + std::to_string(axis),
            needed + ", " + spec.text());
      }
    }
    if (dims->count(expected.symbol)) wanted = dims->at(expected.symbol);
    bool fixed = expected.symbol.empty() || is_name(expected.symbol);
    if (length < 0 || (fixed && length != wanted)) {
      throw bad_tensor(
          spec, text(tensor),
          std::to_string(wanted) + " on axis " + std::to_string(axis) + ", " + spec.text());
    }
  }
  if (!elements_of(tensor.shape, spec.shape.size())) {
    throw bad_tensor(spec, text(tensor),
                     "at most " + std::to_string(kMostElements) + " elements, " + spec.text());
  }
}

// Extents within their bounds, and as their arithmetic says.
void check_extents(const tvm_sparse_tensor& tensor, const TensorSpec& spec, const Dims& dims,
                   const Bounds& bounds) {
  for (size_t axis = 0; axis < spec.shape.size(); ++axis) {
    const std::string& symbol = spec.shape[axis].symbol;
    if (symbol.empty()) continue;
    int64_t extent = tensor.shape[axis];
    std::string found =
        text(tensor) + ", " + std::to_string(extent) + " on axis " + std::to_string(axis);
    for (const std::string& name : names(symbol)) {
      auto limits = bounds.find(name);
      auto value = dims.find(name);
      if (limits == bounds.end() || value == dims.end()) continue;
      auto [low, high] = limits->second;
      if (value->second < low || (high && value->second > *high)) {
        std::string limit = high ? std::to_string(low) + " to " + std::to_string(*high)
                                 : "at least " + std::to_string(low);
        throw bad_tensor(spec, found, name + " = " + limit + ", " + spec.text());
      }
    }
    auto wanted = evaluate(symbol, dims);
    if (wanted && extent != *wanted) {
      throw bad_tensor(spec, found, symbol + " = " + std::to_string(*wanted) + ", " + spec.text());
    }
  }
}

void check_device(const tvm_sparse_tensor& tensor, const TensorSpec& spec, bool gpu) {
  if (tensor.device == TVM_SPARSE_HOST || (gpu && tensor.device == TVM_SPARSE_CUDA)) return;
  bool cuda = tensor.device == TVM_SPARSE_CUDA;
  throw bad_tensor(spec, cuda ? "lies on a GPU" : "device " + std::to_string(tensor.device),
                   gpu ? "TVM_SPARSE_HOST or TVM_SPARSE_CUDA" : "memory of the host");
}

tvm::ffi::Tensor on_gpu(const tvm_sparse_tensor& tensor, const std::vector<int64_t>& shape,
                        const TensorSpec& spec, size_t alignment, bool empty) {
  auto lent = borrowed(const_cast<void*>(tensor.data), shape, spec.dtype, kGpu);
  if (empty) return empty_on_gpu(lent.shape(), lent.dtype());
  return reinterpret_cast<uintptr_t>(tensor.data) % alignment ? copied(lent, kGpu) : lent;
}

tvm::ffi::Tensor aligned(const tvm_sparse_tensor& tensor, const TensorSpec& spec,
                         size_t alignment) {
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  bool empty = false;
  for (int64_t extent : shape) empty = empty || extent == 0;
  if (!tensor.data && !empty) throw bad_tensor(spec, "no data", spec.text());
  if (tensor.device == TVM_SPARSE_CUDA) return on_gpu(tensor, shape, spec, alignment, empty);
  if (empty || reinterpret_cast<uintptr_t>(tensor.data) % alignment) {
    return owned(empty ? nullptr : tensor.data, shape, spec.dtype);
  }
  return borrowed(const_cast<void*>(tensor.data), shape, spec.dtype, kHost);
}

}  // namespace

std::vector<tvm::ffi::Tensor> accepted(const Manifest& manifest, const tvm_sparse_tensor* inputs,
                                       size_t count) {
  const auto& specs = manifest.inputs;
  if (count != specs.size()) {
    throw Error(TVM_SPARSE_BAD_TENSOR, "inputs", std::to_string(count) + " tensors",
                std::to_string(specs.size()));
  }
  Dims dims;
  bool gpu = manifest.on_gpu();
  for (size_t i = 0; i < count; ++i) {
    check_device(inputs[i], specs[i], gpu);
    check_shape(inputs[i], specs[i], &dims);
  }
  std::vector<tvm::ffi::Tensor> result;
  for (size_t i = 0; i < count; ++i) {
    check_extents(inputs[i], specs[i], dims, manifest.bounds);
    size_t alignment = manifest.unaligned[i] ? item_bytes(specs[i].dtype) : kAlignment;
    result.push_back(aligned(inputs[i], specs[i], alignment));
  }
  return result;
}

}  // namespace tvm_sparse
