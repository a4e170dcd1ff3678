// Threads: how many share a call.
#pragma once

namespace tvm_sparse {

// Check the number of threads that a caller wishes; without one (0) set that of the process.
//
// That is TVM_NUM_THREADS where the user has set it, else `recorded` (but no more than there are
// physical cores), else all physical cores of this process.
void choose_threads(int wish, int recorded);

}  // namespace tvm_sparse
