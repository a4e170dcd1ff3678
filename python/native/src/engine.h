// The one place that knows TVM: its runtime library, modules and tensors.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <string>
#include <utility>
#include <vector>

#include "manifest.h"

namespace tvm_sparse {

// The installed version of each wheel, by "distribution/key of a manifest".
std::vector<std::pair<std::string, std::string>> wheel_versions();

// Load TVM's runtime library, which registers itself; raises an Error if it is not there.
void start_engine();

// A function of TVM's registry.
tvm::ffi::Function registered(const char* name);

// Open a library for good and return its program; weights point into it.
tvm::ffi::Module open_program(const std::string& name);

// Where the weights of a library begin, which stays open for good.
void* weights_of(const std::string& name);

// Where TVM's runtime library lies, and where a wheel installs a folder beside ours.
std::string engine_folder();
std::string beside(const std::string& folder);

// A new virtual machine of an opened program, on the CPU or on a GPU with the CPU for shapes.
tvm::ffi::Module new_machine(const tvm::ffi::Module& program, bool on_gpu);

// A tensor on memory of `device` that outlives it.
tvm::ffi::Tensor borrowed(void* data, const std::vector<int64_t>& shape, const std::string& dtype,
                          DLDevice device);

// A new tensor, aligned as kernels need it, with a copy of `data` (may be null).
tvm::ffi::Tensor owned(const void* data, const std::vector<int64_t>& shape,
                       const std::string& dtype);

// A new tensor, aligned as kernels need it.
tvm::ffi::Tensor empty(tvm::ffi::Shape shape, DLDataType dtype);

size_t nbytes(const tvm::ffi::Tensor& tensor);

// Whether `tensor` begins in the memory of `other`.
bool inside(const tvm::ffi::Tensor& tensor, const tvm::ffi::Tensor& other);

std::string dtype_name(const tvm::ffi::Tensor& tensor);

}  // namespace tvm_sparse
