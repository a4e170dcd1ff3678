"""The built-in sparsity kinds, registered when the registry is first read."""

from __future__ import annotations

from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.depthwise import DepthwiseTapsFormat
from tvm_sparse.formats.filters import FilterPrunedFormat
from tvm_sparse.formats.joint import JointFormat
from tvm_sparse.formats.unstructured import UnstructuredFormat
from tvm_sparse.ops.balanced_candidates import balanced_candidates
from tvm_sparse.ops.block_candidates import block_candidates
from tvm_sparse.ops.compressed_rows_candidates import unstructured_candidates
from tvm_sparse.ops.depthwise_taps_candidates import depthwise_taps_candidates
from tvm_sparse.ops.joint_candidates import joint_candidates
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.depthwise import DepthwiseTaps
from tvm_sparse.patterns.filters import FilterPruned
from tvm_sparse.patterns.joint import Joint
from tvm_sparse.patterns.unstructured import Unstructured
from tvm_sparse.registry import Kind, register

BALANCED = register(Kind("balanced", Balanced, (BalancedFormat,), balanced_candidates))
BLOCK = register(Kind("block", Block, (CompressedRowsFormat, BlockFormat), block_candidates))
JOINT = register(Kind("joint", Joint, (CompressedBanksFormat, JointFormat), joint_candidates))
DEPTHWISE_TAPS = register(
    Kind(
        "depthwise_taps",
        DepthwiseTaps,
        (CompressedRowsFormat, DepthwiseTapsFormat),
        depthwise_taps_candidates,
    )
)
FILTER_PRUNED = register(Kind("filter_pruned", FilterPruned, (FilterPrunedFormat,)))
UNSTRUCTURED = register(
    Kind(
        "unstructured",
        Unstructured,
        (CompressedRowsFormat, UnstructuredFormat),
        unstructured_candidates,
    )
)
