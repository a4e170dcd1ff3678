// Run an artifact on inputs of random shapes: requests ARTIFACT COUNT MOST. Each free extent is
// from 1 to MOST; an input is a row of small numbers. Results of equal shapes must have equal bits.
// Prints the resident KiB after a tenth of the calls, and after all.
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tvm_sparse/runtime.hpp"

namespace {

long resident() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "VmRSS:") break;
  long found = 0;
  status >> found;
  return found;
}

uint64_t hash(const tvm_sparse_tensor& tensor) {
  size_t count = 1;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) count *= static_cast<size_t>(tensor.shape[axis]);
  uint64_t found = 1469598103934665603u;
  const auto* words = static_cast<const uint32_t*>(tensor.data);
  for (size_t i = 0; i < count; ++i) found = (found ^ words[i]) * 1099511628211u;
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    tvm_sparse::Library library(argv[1]);
    const int count = std::atoi(argv[2]);
    std::mt19937 random(0);
    std::uniform_int_distribution<int64_t> extents(1, std::atoi(argv[3]));
    std::map<std::vector<int64_t>, uint64_t> seen;
    std::vector<float> values;
    for (int request = 0; request < count; ++request) {
      const tvm_sparse_spec* spec = library.input(0);
      std::vector<int64_t> shape(spec->shape, spec->shape + spec->ndim);
      size_t elements = 1;
      for (int64_t& extent : shape) {
        if (extent < 0) extent = extents(random);
        elements *= static_cast<size_t>(extent);
      }
      for (size_t i = values.size(); i < elements; ++i) values.push_back(float(i % 17) / 8 - 1);
      tvm_sparse::Outputs outputs = library({{values.data(), shape, spec->dtype}});
      uint64_t found = hash(outputs[0]);
      if (seen.emplace(shape, found).first->second != found) {
        return std::cerr << "another result in request " << request << "\n", 1;
      }
      if (request == count / 10) std::cout << resident() << "\n";
    }
    std::cout << resident() << "\n";
    return 0;
  } catch (const std::exception& error) {
    return std::cerr << error.what() << "\n", 1;
  }
}
