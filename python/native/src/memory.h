// Memory for activations: blocks that calls of any shapes share.
#pragma once

#include <cstddef>

namespace tvm_sparse {

struct Block {
  void* data = nullptr;
  size_t size = 0;
};

// A block of at least so many bytes, which begins on 64 of them; raises an Error if there is none.
Block take_block(size_t bytes);

// Let others have a block.
void give_block(const Block& block);

// Have virtual machines that start from now on take their CPU memory from blocks of ours.
//
// TVM's pool keeps a block for each size that it ever gave, for that size alone: with open extents
// it grows by every new shape. `tvm` is the handle of TVM's runtime library.
void share_blocks(void* tvm);

}  // namespace tvm_sparse
