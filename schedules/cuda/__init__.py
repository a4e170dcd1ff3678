"""How operators run on NVIDIA GPUs: one rule a file, tried in the order of :data:`RULES`."""

from __future__ import annotations

from typing import Any

from tvm_sparse.schedules.cuda.depthwise import DepthwiseStripRule
from tvm_sparse.schedules.cuda.depthwise_taps import DepthwiseTapsLaneRule
from tvm_sparse.schedules.cuda.generic import REST
from tvm_sparse.schedules.cuda.machine_code import our_compiler
from tvm_sparse.schedules.cuda.results import ResultsRule
from tvm_sparse.schedules.cuda.rows import RowsRule
from tvm_sparse.schedules.cuda.separable import SeparableRule
from tvm_sparse.schedules.cuda.stream import StreamRule
from tvm_sparse.schedules.cuda.tile_scalar import TileScalarRule
from tvm_sparse.schedules.cuda.tile_tensor_core import TileBytesRule, TileTensorCoreRule
from tvm_sparse.schedules.cuda.tile_two_four import TileTwoFourRule
from tvm_sparse.schedules.cuda.tile_wgmma import TileWgmmaRule
from tvm_sparse.schedules.rule import ScheduleRule

__all__ = ["PASS_CONFIG", "RULES", "our_compiler"]

RULES: tuple[ScheduleRule, ...] = (
    StreamRule(),
    SeparableRule(),
    TileScalarRule(),
    TileTensorCoreRule(),
    TileBytesRule(),
    TileTwoFourRule(),
    TileWgmmaRule(),
    DepthwiseStripRule(),
    DepthwiseTapsLaneRule(),
    RowsRule(),
    ResultsRule(),
    *REST,
)

PASS_CONFIG: dict[str, Any] = {
    "tirx.use_async_copy": True,
    "tirx.disable_storage_rewrite": True,
    "relax.backend.use_cuda_graph": True,
}
"""Copies to shared memory are asynchronous where a schedule says so. `StorageRewrite` would give
such buffers vector types, which the asynchronous copies do not understand; ptxas allocates
registers itself. All kernels but those that touch inputs and outputs become one CUDA graph."""
