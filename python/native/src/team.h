// Calls of programs, whose parallel loops are shared by one crew from the first to the last.
#pragma once

#include <tvm/ffi/function.h>

namespace tvm_sparse {

// Have the parallel loops of all libraries that are opened from now on shared by crews.
//
// tvm: the library of TVM's runtime, whose thread pool serves loops outside of our calls.
void join_loops(void* tvm);

// `function`, for one call at a time. Its loops run in the way that took less before: in the
// caller's thread, or shared by a crew.
tvm::ffi::Function together(tvm::ffi::Function function);

}  // namespace tvm_sparse
