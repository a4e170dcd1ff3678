// Threads: how many TVM starts.
#pragma once

namespace tvm_sparse {

// Set the number of threads before TVM's runtime reads it.
//
// wish: what the caller asks for, 0 for nothing: then TVM_NUM_THREADS counts, then `recorded` (but
// no more than there are physical cores), then all physical cores of this process.
void choose_threads(int wish, int recorded);

// Make the calling thread's pool use `wish` threads; 0 leaves it. It can never grow.
void resize_pool(int wish);

}  // namespace tvm_sparse
