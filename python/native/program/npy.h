// Arrays in NumPy's file format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tvm_sparse/runtime.h"

namespace npy {

struct Array {
  std::string dtype;  // as NumPy spells it, "float32"
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

// The whole of a file, or of a pipe. Raises std::runtime_error for what is no contiguous array of
// plain numbers.
Array read(const std::string& path);

void write(const std::string& path, const tvm_sparse_tensor& tensor);

}  // namespace npy
