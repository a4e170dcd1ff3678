"""How operators run on NVIDIA GPUs: one rule a file, tried in the order of :data:`RULES`."""

from __future__ import annotations

from typing import Any

from tvm_sparse.schedules.cuda.depthwise import DepthwiseStrip
from tvm_sparse.schedules.cuda.depthwise_taps import DepthwiseTapsLane
from tvm_sparse.schedules.cuda.generic import REST
from tvm_sparse.schedules.cuda.machine_code import our_compiler
from tvm_sparse.schedules.cuda.separable import Separable
from tvm_sparse.schedules.cuda.stream import Stream
from tvm_sparse.schedules.cuda.tile_scalar import TileScalar
from tvm_sparse.schedules.cuda.tile_tensor_core import TileTensorCore
from tvm_sparse.schedules.cuda.tile_two_four import TileTwoFour
from tvm_sparse.schedules.rule import ScheduleRule

__all__ = ["PASS_CONFIG", "RULES", "our_compiler"]

RULES: tuple[ScheduleRule, ...] = (
    Stream(),
    Separable(),
    TileScalar(),
    TileTensorCore(),
    TileTwoFour(),
    DepthwiseStrip(),
    DepthwiseTapsLane(),
    *REST,
)

PASS_CONFIG: dict[str, Any] = {
    "tirx.use_async_copy": True,
    "tirx.disable_storage_rewrite": True,
    "relax.backend.use_cuda_graph": True,
}
"""Copies to shared memory are asynchronous where a schedule says so. Storage rewriting would give
such buffers vector types, which the asynchronous copies do not understand; ptxas allocates
registers itself. All kernels but those that touch inputs and outputs become one CUDA graph."""
