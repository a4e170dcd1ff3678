// Functions between this library and TVM's, which may be built with different C++ libraries.
#pragma once

#include <tvm/ffi/function.h>

namespace tvm_sparse {

// `function`, whose errors cross as values.
//
// tvm-ffi calls a function that C++ made directly: its exception unwinds the caller. That asks for
// one C++ library in both. Our wheels have Clang's, TVM's have GCC's.
tvm::ffi::Function apart(tvm::ffi::Function function);

// Put `function` into TVM's registry.
void publish(const char* name, tvm::ffi::Function function);

}  // namespace tvm_sparse
