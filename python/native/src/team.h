// Teams: threads that stay together from the first parallel loop of a call to its last.
#pragma once

#include <tvm/ffi/function.h>

namespace tvm_sparse {

// Have the parallel loops of all libraries that are opened from now on ask for a team first.
//
// tvm: the library of TVM's runtime, whose thread pool serves loops outside of teams.
void join_loops(void* tvm);

// `function`, for one call at a time. Its loops run in the way that took less before: in the
// caller's thread, or shared, on a team if they are several.
tvm::ffi::Function together(tvm::ffi::Function function);

}  // namespace tvm_sparse
