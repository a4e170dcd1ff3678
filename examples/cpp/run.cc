// Run an artifact from C++ on two threads: run_from_cpp ARTIFACT. Each thread has a session of its
// own; both share one copy of the weights. The input is 0, 1, 2 and so on; the first output goes to
// stdout as it is. A free extent is 2.
#include <cstdio>
#include <exception>
#include <future>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tvm_sparse/runtime.hpp"

namespace {

constexpr int64_t kFreeExtent = 2;

std::vector<float> first_output(tvm_sparse::Library library) {
  const tvm_sparse_spec* spec = library.input(0);
  if (!spec) throw std::runtime_error("the program takes nothing");
  std::vector<int64_t> shape(spec->shape, spec->shape + spec->ndim);
  size_t count = 1;
  for (int64_t& extent : shape) {
    if (extent < 0) extent = kFreeExtent;
    if (__builtin_mul_overflow(count, static_cast<size_t>(extent), &count)) {
      throw std::runtime_error("the input is too large");
    }
  }
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  tvm_sparse::Outputs outputs = library({{values.data(), shape, spec->dtype}});
  size_t elements = 1;
  for (int32_t axis = 0; axis < outputs[0].ndim; ++axis) {
    elements *= static_cast<size_t>(outputs[0].shape[axis]);
  }
  const float* data = outputs.data<float>(0);
  return {data, data + elements};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: run_from_cpp ARTIFACT\n", 2;
  try {
    tvm_sparse::Library library(argv[1]);
    auto other = std::async(std::launch::async, first_output, library.clone());
    std::vector<float> result = first_output(library.clone());
    if (other.get() != result) return std::cerr << "the threads differ\n", 1;
    std::fwrite(result.data(), sizeof(float), result.size(), stdout);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
