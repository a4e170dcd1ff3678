"""The built-in sparsity kinds, registered when the registry is first read."""

from __future__ import annotations

from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.ops.balanced_candidates import balanced_candidates
from tvm_sparse.ops.block_candidates import block_candidates
from tvm_sparse.ops.compressed_rows_candidates import unstructured_candidates
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.unstructured import Unstructured
from tvm_sparse.registry import Kind, register

BALANCED = register(Kind("balanced", Balanced, (BalancedFormat,), balanced_candidates))
BLOCK = register(Kind("block", Block, (CompressedRowsFormat,), block_candidates))
UNSTRUCTURED = register(
    Kind("unstructured", Unstructured, (CompressedRowsFormat,), unstructured_candidates)
)
