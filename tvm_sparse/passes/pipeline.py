"""All passes in order: what happens to a model, from import to virtual machine code.

The first phase is the same everywhere; ``on_cpus.py`` and ``on_gpus.py`` have the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from tvm.target import Target

from tvm_sparse.base.table import Table
from tvm_sparse.passes.canonical.bind_weights import BindWeights
from tvm_sparse.passes.canonical.channels_last import ChannelsLast
from tvm_sparse.passes.canonical.drop_reshapes import DropReshapes
from tvm_sparse.passes.canonical.flush_denormals import FlushDenormals
from tvm_sparse.passes.canonical.fold_batch_norm import FoldBatchNorm
from tvm_sparse.passes.canonical.fold_constants import FoldConstants
from tvm_sparse.passes.canonical.hoist_elementwise import HoistElementwise
from tvm_sparse.passes.canonical.pad_convolutions import PadConvolutions
from tvm_sparse.passes.canonical.pad_pools import PadPools
from tvm_sparse.passes.canonical.pool_first import PoolFirst
from tvm_sparse.passes.canonical.simplify import Simplify
from tvm_sparse.passes.canonical.sink_permutes import SinkPermutes
from tvm_sparse.passes.canonical.transposed_convolution import TransposedConvolution
from tvm_sparse.passes.device import DevicePasses, Pass, Scheduling
from tvm_sparse.passes.on_cpus import CPU
from tvm_sparse.passes.on_gpus import GPU
from tvm_sparse.schedules.build import device_of, rules_for
from tvm_sparse.schedules.rule import ApplySchedules, ScheduleRule
from tvm_sparse.selection.choose import Chooser

DEVICES: Table[DevicePasses] = Table("pipeline", {"llvm": CPU, "cuda": GPU})
"""By the kind of TVM's target."""


def canonicalise(weights: Mapping[str, np.ndarray], inputs: int) -> list[Pass]:
    """Phase 1: named constants, no batch norm, no masks, no denormal weights, one layout."""
    return [
        BindWeights(weights, inputs),
        Simplify(),
        TransposedConvolution(),
        FoldConstants(),
        FoldBatchNorm(),
        PadConvolutions(),
        PadPools(),
        PoolFirst(),
        ChannelsLast(),
        Simplify(),
        FoldConstants(),
        SinkPermutes(),
        HoistElementwise(),
        DropReshapes(),
        Simplify(),
        FlushDenormals(),
    ]


def lower(chooser: Chooser) -> list[Pass]:
    """Phase 2: contractions become our operators, the rest TVM's definitions; fuse."""
    return passes_of(chooser.target).lower(chooser)


def lowering(weights: Mapping[str, np.ndarray], inputs: int, chooser: Chooser) -> list[Pass]:
    """Phases 1 and 2: from the imported module to functions without schedules."""
    return [*canonicalise(weights, inputs), *lower(chooser)]


def schedule(
    target: Target,
    packed: dict[str, np.ndarray],
    report: Callable[[str, str | None], None] = lambda name, rule: None,
    first: tuple[ScheduleRule, ...] = (),
    free: Callable[[tuple[int, ...]], None] = lambda inputs: None,
) -> list[Pass]:
    """Phase 3: how each function runs; weights leave the code and land in ``packed``.

    ``report`` is told the schedule rule of each function; the rules ``first`` are tried before
    the target's own. ``free`` is told which inputs may begin anywhere in memory.
    """
    rules: dict[str, str | None] = {}

    def told(name: str, rule: str | None) -> None:
        rules[name] = rule
        report(name, rule)

    apply = ApplySchedules(target, (*first, *rules_for(target)), told)
    return passes_of(target).schedule(Scheduling(apply, rules, report, packed, free), target)


def finalise(target: Target) -> list[Pass]:
    """Phase 4: Relax to virtual machine code, memory planned statically."""
    return passes_of(target).finalise(target)


def passes_of(target: Target) -> DevicePasses:
    """Return the passes for ``target``'s kind; an unknown kind is refused."""
    device_of(target)
    return DEVICES.parts()[target.kind.name]
