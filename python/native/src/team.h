// Teams: threads that stay together from the first parallel loop of a call to its last.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

namespace tvm_sparse {

// Have the parallel loops of all libraries that are opened from now on ask for a team first.
//
// tvm: the library of TVM's runtime, whose thread pool serves loops outside of teams.
void join_loops(void* tvm);

// `function` with its `last` arguments, for one call at a time. It has a team in each call that
// comes after one of several parallel loops.
tvm::ffi::Function together(tvm::ffi::Function function, tvm::ffi::Array<tvm::ffi::Tensor> last);

}  // namespace tvm_sparse
