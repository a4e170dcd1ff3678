"""All passes in order: what happens to a model, from import to virtual machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from tvm import relax
from tvm.relax.backend import cpu_generic, cuda
from tvm.target import Target

from tvm_sparse.base.config import Config
from tvm_sparse.base.targets import threads_of
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.passes.bytes.fold_scales import FoldScales
from tvm_sparse.passes.bytes.fuse_quantization import FuseQuantization
from tvm_sparse.passes.bytes.fuse_tables import AnnotateLookUps, FuseTables
from tvm_sparse.passes.bytes.pad_first import PadFirst
from tvm_sparse.passes.bytes.quantise_rows import QuantiseRows
from tvm_sparse.passes.bytes.read_bytes import ReadBytes
from tvm_sparse.passes.bytes.tabulate_bytes import TabulateBytes
from tvm_sparse.passes.canonical.bind_weights import BindWeights
from tvm_sparse.passes.canonical.channels_last import ChannelsLast
from tvm_sparse.passes.canonical.drop_reshapes import DropReshapes
from tvm_sparse.passes.canonical.fold_batch_norm import FoldBatchNorm
from tvm_sparse.passes.canonical.fold_constants import FoldConstants
from tvm_sparse.passes.canonical.hoist_elementwise import HoistElementwise
from tvm_sparse.passes.canonical.left_products import LeftProducts
from tvm_sparse.passes.canonical.pool_first import PoolFirst
from tvm_sparse.passes.canonical.simplify import Simplify
from tvm_sparse.passes.canonical.sink_permutes import SinkPermutes
from tvm_sparse.passes.canonical.transposed_convolution import TransposedConvolution
from tvm_sparse.passes.finish.apart_in_memory import ApartInMemory
from tvm_sparse.passes.finish.call_parts import CallParts
from tvm_sparse.passes.finish.free_inputs import FreeInputs
from tvm_sparse.passes.finish.lift_weights import LiftWeights
from tvm_sparse.passes.finish.raise_assertions import RaiseAssertions
from tvm_sparse.passes.finish.return_tensor import ReturnTensor
from tvm_sparse.passes.finish.share_functions import ShareFunctions
from tvm_sparse.passes.finish.view_reshapes import ViewReshapes
from tvm_sparse.passes.finish.write_padding import WritePadding
from tvm_sparse.passes.lower.adaptive_pooling import ON_THREADS as ADAPTIVE_ON_THREADS
from tvm_sparse.passes.lower.definitions import DEFINITIONS
from tvm_sparse.passes.lower.fuse_depthwise import FuseDepthwise
from tvm_sparse.passes.lower.lower_concatenate import LowerConcatenate
from tvm_sparse.passes.lower.lower_contractions import LowerContractions
from tvm_sparse.passes.lower.lower_lines import LowerLines
from tvm_sparse.passes.lower.lower_permutes import LowerPermutes
from tvm_sparse.passes.lower.lower_reductions import LowerReductions
from tvm_sparse.passes.lower.lower_rows import LowerRows
from tvm_sparse.passes.lower.merge_permutes import MergePermutes
from tvm_sparse.passes.lower.norms import LowerNorms
from tvm_sparse.passes.lower.pooling import LowerPools
from tvm_sparse.passes.lower.round_operands import RoundOperands
from tvm_sparse.passes.lower.take_places import TakePlaces
from tvm_sparse.passes.lower.threaded_lines import ON_THREADS
from tvm_sparse.passes.lower.unroll_recurrences import UnrollRecurrences
from tvm_sparse.passes.lower.widen_products import WidenProducts
from tvm_sparse.passes.shrink.group_products import GroupProducts
from tvm_sparse.passes.shrink.join_phases import JoinPhases
from tvm_sparse.passes.shrink.order_channels import OrderChannels
from tvm_sparse.passes.shrink.remove_channels import RemoveChannels
from tvm_sparse.passes.shrink.remove_taps import RemoveTaps
from tvm_sparse.passes.shrink.split_batch import SplitBatch
from tvm_sparse.passes.shrink.unfold_lines import UnfoldLines
from tvm_sparse.schedules.build import after_scheduling, rules_for, splitting
from tvm_sparse.schedules.cuda.parallel_loops import BindParallelLoops
from tvm_sparse.schedules.rule import ApplySchedules, ScheduleRule
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import DENSE

Pass: TypeAlias = Any


def canonicalise(weights: Mapping[str, np.ndarray], inputs: int) -> list[Pass]:
    """Phase 1: named constants, no batch norm, no masks, one layout."""
    return [
        BindWeights(weights, inputs),
        Simplify(),
        TransposedConvolution(),
        FoldConstants(),
        FoldBatchNorm(),
        PoolFirst(),
        ChannelsLast(),
        Simplify(),
        FoldConstants(),
        SinkPermutes(),
        HoistElementwise(),
        DropReshapes(),
        Simplify(),
    ]


def lower(chooser: Chooser) -> list[Pass]:
    """Phase 2: contractions become our operators, the rest TVM's definitions; fuse."""
    smaller, parts = [], []
    on_gpu = chooser.target.kind.name == "cuda"
    if chooser.config.sparse:
        products = [] if on_gpu else [GroupProducts(chooser.notes), LeftProducts(chooser.notes)]
        apart = on_gpu or not set(DENSE).isdisjoint(chooser.config.force.values())
        joined = [] if apart else [JoinPhases(chooser.notes, chooser.widened), HoistElementwise()]
        smaller = [*products, *joined, RemoveChannels(chooser.notes), OrderChannels(chooser.notes)]
    if not on_gpu:
        parts = [UnfoldLines(), SplitBatch(machine_of(chooser.target).caches.near // 2, least=1.0)]
    plain = chooser.config.precision == Config.precision
    return [
        UnrollRecurrences(whole=plain and not on_gpu),
        FoldConstants(),
        RemoveTaps(chooser.notes),
        *smaller,
        *parts,
        *([FuseDepthwise(chooser)] if on_gpu else _quantised(chooser.target)),
        *([] if on_gpu else [WidenProducts(chooser.target, chooser.note)]),
        *_rounded(chooser),
        LowerContractions(chooser),
        MergePermutes(),
        *([] if on_gpu else _of_bytes(chooser.target)),
        LowerRows(),
        *(
            [LowerLines(ON_THREADS, takes=False)]
            if on_gpu
            else [*_reductions(chooser.target), TakePlaces(), *_moves()]
        ),
        relax.transform.LegalizeOps({**DEFINITIONS, **(ADAPTIVE_ON_THREADS if on_gpu else {})}),
        relax.transform.AnnotateTIROpPattern(),
        AnnotateLookUps(),
        relax.transform.DeadCodeElimination(),  # of which FuseOps would tell stderr
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
        *([] if on_gpu else [ShareFunctions()]),
    ]


def _reductions(target: Target) -> list[Pass]:
    """Return what makes less of rows and windows, on CPUs."""
    return [LowerNorms(), LowerPools(), LowerReductions(threads_of(target))]


def _moves() -> list[Pass]:
    """Return what moves elements in an order of its own, on CPUs."""
    return [LowerLines(), LowerConcatenate(), LowerPermutes()]


def _quantised(target: Target) -> list[Pass]:
    """Return what finds layers of bytes, on CPUs."""
    return [FuseQuantization(), TabulateBytes(machine_of(target))]


def _of_bytes(target: Target) -> list[Pass]:
    """Return what lets kernels read and write bytes, on CPUs."""
    machine = machine_of(target)
    return [FuseTables(machine), PadFirst(machine), FoldScales(), ReadBytes(), QuantiseRows()]


def _rounded(chooser: Chooser) -> list[Pass]:
    """Return what makes floats narrower, if the user says so."""
    dtype = chooser.config.precision
    if dtype == Config.precision:
        return []
    return [RoundOperands(dtype, chooser.target, chooser.note)]


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
    return [
        *([BindParallelLoops()] if target.kind.name == "cuda" else []),
        apply,
        WritePadding(rules, report),
        LiftWeights(packed),
        ViewReshapes(),
        CallParts(),
        apply,
        *([] if target.kind.name == "cuda" else [FreeInputs(free)]),
        *splitting(target),
    ]


def finalise(target: Target) -> list[Pass]:
    """Phase 4: Relax to virtual machine code, memory planned statically."""
    stock = cuda if target.kind.name == "cuda" else cpu_generic
    return [
        RaiseAssertions(apart=stock is cuda),
        ReturnTensor(),
        *after_scheduling(target),
        *map(_read_safely, stock.pipeline.dataflow_lower_passes(target)),
        *stock.pipeline.finalize_passes(target),
        ApartInMemory(),
    ]


def _read_safely(step: Pass) -> Pass:
    """Return ``step``, or what stands for TVM's pass that makes views of reshapes."""
    return ViewReshapes() if step.info.name == "RewriteDataflowReshape" else step
