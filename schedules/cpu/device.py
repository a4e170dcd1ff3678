"""CPUs: how functions are built for them."""

from __future__ import annotations

from typing import Any

from tvm.target import Target

from tvm_sparse.base.targets import threads_of
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.schedules.bind_factors import BindFactors
from tvm_sparse.schedules.cpu import RULES
from tvm_sparse.schedules.cpu.fetch_ahead import FetchAhead
from tvm_sparse.schedules.cpu.lower_halves import LowerHalves
from tvm_sparse.schedules.cpu.masked_loops import SplitMaskedLoops, careful
from tvm_sparse.schedules.cpu.overlap_tiles import OverlapTiles
from tvm_sparse.schedules.cpu.pack_bytes import PackBytes
from tvm_sparse.schedules.cpu.partial_vectors import PartialVectors
from tvm_sparse.schedules.cpu.round_directly import RoundDirectly
from tvm_sparse.schedules.cpu.serial_loops import SerialLoops
from tvm_sparse.schedules.cpu.stack_variables import StackVariables
from tvm_sparse.schedules.cpu.vector_math import vector_math
from tvm_sparse.schedules.device import Device
from tvm_sparse.schedules.exact_indices import ExactIndices
from tvm_sparse.schedules.flat_places import FlatPlaces
from tvm_sparse.schedules.hoisted_inits import HoistInits
from tvm_sparse.schedules.known_numbers import KnownNumbers
from tvm_sparse.schedules.lifted_bindings import LiftedBindings
from tvm_sparse.schedules.opaque_bounds import OpaqueBounds
from tvm_sparse.schedules.single_bindings import SingleBindings
from tvm_sparse.schedules.whole_numbers import WholeNumbers


def _after_scheduling(target: Target) -> list[Any]:
    machine = machine_of(target)
    return [
        OverlapTiles(),
        PartialVectors(),
        *([SerialLoops()] if threads_of(target) == 1 else []),
        LowerHalves(),
        StackVariables(),
        *([RoundDirectly()] if machine.rounds else []),
        PackBytes(machine.pack, machine.table),
        FetchAhead(machine.caches),
        FlatPlaces(),
        ExactIndices(),
        OpaqueBounds(),
        BindFactors(),
        WholeNumbers(),
        KnownNumbers(),
        SingleBindings(),
        LiftedBindings(),
    ]


CPU = Device(
    rules=RULES,
    pass_config={},
    context=lambda target: vector_math(),
    options=careful,
    splitting=lambda: [HoistInits(), SplitMaskedLoops()],
    after_scheduling=_after_scheduling,
)
