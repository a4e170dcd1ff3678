"""NVIDIA GPUs: how functions are built for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tvm.target import Target

from tvm_sparse.base.targets import cuda_archs
from tvm_sparse.schedules.bind_factors import BindFactors
from tvm_sparse.schedules.cpu.overlap_tiles import OverlapTiles
from tvm_sparse.schedules.cuda import PASS_CONFIG, RULES, our_compiler
from tvm_sparse.schedules.cuda.narrow_integers import narrow_integers
from tvm_sparse.schedules.cuda.room_on_chip import RoomOnChip
from tvm_sparse.schedules.cuda.scalar_lanes import SerialConditions
from tvm_sparse.schedules.cuda.skipped_steps import SkippedSteps
from tvm_sparse.schedules.device import Device
from tvm_sparse.schedules.exact_indices import ExactIndices
from tvm_sparse.schedules.known_numbers import KnownNumbers
from tvm_sparse.schedules.lifted_bindings import LiftedBindings
from tvm_sparse.schedules.opaque_bounds import OpaqueBounds
from tvm_sparse.schedules.single_bindings import SingleBindings


@contextlib.contextmanager
def _context(target: Target) -> Iterator[None]:
    with our_compiler(cuda_archs(target)), narrow_integers():
        yield


GPU = Device(
    rules=RULES,
    pass_config=PASS_CONFIG,
    context=_context,
    options=lambda target, mod: target,
    splitting=list,
    after_scheduling=lambda target: [
        SkippedSteps(),
        RoomOnChip(),
        SerialConditions(),
        OverlapTiles(),
        ExactIndices(),
        OpaqueBounds(),
        BindFactors(),
        KnownNumbers(),
        SingleBindings(),
        LiftedBindings(),
    ],
)
