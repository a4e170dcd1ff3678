// Memory for activations: blocks that calls of any shapes share.
#pragma once

namespace tvm_sparse {

// Have virtual machines that start from now on take their CPU memory from blocks of ours.
//
// TVM's pool keeps a block for each size that it ever gave, for that size alone: with open extents
// it grows by every new shape.
void share_blocks();

}  // namespace tvm_sparse
