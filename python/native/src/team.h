// Teams: threads that stay together from the first parallel loop of a call to its last.
#pragma once

#include <tvm/ffi/function.h>

namespace tvm_sparse {

// Have the parallel loops of all libraries that are opened from now on ask for a team first.
//
// tvm: the library of TVM's runtime, whose thread pool serves loops outside of teams.
void join_loops(void* tvm);

// `function`, for one call at a time. Its loops run as suits what the call before took: alone, in
// the pool, or, if they were several, on a team.
tvm::ffi::Function together(tvm::ffi::Function function);

}  // namespace tvm_sparse
