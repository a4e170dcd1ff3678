"""What happens to a model on NVIDIA GPUs, from one form to virtual machine code."""

from __future__ import annotations

from typing import Any

from tvm.relax.backend import cuda
from tvm.target import Target

from tvm_sparse.passes.bytes.fold_scales import FoldScales
from tvm_sparse.passes.bytes.fuse_quantization import FuseQuantization
from tvm_sparse.passes.bytes.read_bytes import ReadBytes
from tvm_sparse.passes.canonical.fold_constants import FoldConstants
from tvm_sparse.passes.device import DevicePasses, Scheduling
from tvm_sparse.passes.finish.apart_in_memory import ApartInMemory
from tvm_sparse.passes.finish.call_libraries import CallLibraries
from tvm_sparse.passes.finish.call_parts import CallParts
from tvm_sparse.passes.finish.compress_weights import CompressWeights
from tvm_sparse.passes.finish.lift_weights import LiftWeights
from tvm_sparse.passes.finish.lift_workspaces import LiftWorkspaces
from tvm_sparse.passes.finish.order_extents import OrderExtents
from tvm_sparse.passes.finish.plain_extents import PlainExtents
from tvm_sparse.passes.finish.raise_assertions import RaiseAssertions
from tvm_sparse.passes.finish.return_tensor import ReturnTensor
from tvm_sparse.passes.finish.view_reshapes import ViewReshapes, read_safely
from tvm_sparse.passes.finish.write_padding import WritePadding
from tvm_sparse.passes.lower.abilities import Abilities
from tvm_sparse.passes.lower.adaptive_pooling import ON_THREADS as ADAPTIVE_ON_THREADS
from tvm_sparse.passes.lower.annotate_reductions import AnnotateReductions
from tvm_sparse.passes.lower.copy_widening import CopyWidening
from tvm_sparse.passes.lower.definitions import DEFINITIONS
from tvm_sparse.passes.lower.fuse import fused
from tvm_sparse.passes.lower.fuse_attention import FuseAttention
from tvm_sparse.passes.lower.fuse_depthwise import FuseDepthwise
from tvm_sparse.passes.lower.lower_contractions import LowerContractions
from tvm_sparse.passes.lower.lower_lines import LowerLines
from tvm_sparse.passes.lower.lower_rows import LowerRows
from tvm_sparse.passes.lower.merge_permutes import MergePermutes
from tvm_sparse.passes.lower.plan_library_calls import PlanLibraryCalls
from tvm_sparse.passes.lower.products import TiledProducts
from tvm_sparse.passes.lower.round_operands import RoundOperands
from tvm_sparse.passes.lower.threaded_lines import ON_THREADS
from tvm_sparse.passes.lower.unroll_recurrences import UnrollRecurrences
from tvm_sparse.passes.shrink.order_channels import OrderChannels
from tvm_sparse.passes.shrink.remove_channels import RemoveChannels
from tvm_sparse.passes.shrink.remove_taps import RemoveTaps
from tvm_sparse.schedules.build import device_of
from tvm_sparse.schedules.cuda.parallel_loops import BindParallelLoops
from tvm_sparse.selection.choose import Chooser

TILES = Abilities(
    products=TiledProducts,
    reads_outside=True,
    open_planes=False,
    groups=False,
    depthwise=(2,),
    grouped_bytes=False,
    computed_weights=lambda *_: None,
    channels_first=False,
    shuffles=False,
)


def _lower(chooser: Chooser) -> list[Any]:
    notes = chooser.notes
    return [
        UnrollRecurrences(whole=False),
        FoldConstants(),
        RemoveTaps(notes),
        *([RemoveChannels(notes), OrderChannels(notes)] if chooser.config.sparse else []),
        FuseAttention(chooser.target, chooser.decisions.in_floats.note_product),
        FuseQuantization(),
        FuseDepthwise(chooser),
        RoundOperands(chooser.config.precision, chooser.target, notes.add),
        LowerContractions(chooser, TILES),
        MergePermutes(),
        FoldScales(),
        ReadBytes(),
        LowerRows(together=True),
        LowerLines(ON_THREADS, takes=False),
        CopyWidening(),
        *fused({**DEFINITIONS, **ADAPTIVE_ON_THREADS}, AnnotateReductions()),
        PlainExtents(),
        PlanLibraryCalls(chooser.decisions),
    ]


def _schedule(s: Scheduling, target: Target) -> list[Any]:
    return [
        BindParallelLoops(),
        s.apply,
        WritePadding(s.rules, s.report),
        LiftWeights(s.packed),
        CompressWeights(),
        ViewReshapes(),
        CallParts(),
        s.apply,
        *device_of(target).splitting(),
    ]


def _finalise(target: Target) -> list[Any]:
    return [
        RaiseAssertions(apart=True),
        CallLibraries(),
        LiftWorkspaces(),
        ReturnTensor(),
        *device_of(target).after_scheduling(target),
        *map(read_safely, cuda.pipeline.dataflow_lower_passes(target)),
        *cuda.pipeline.finalize_passes(target),
        ApartInMemory(),
        OrderExtents(),
    ]


GPU = DevicePasses(_lower, _schedule, _finalise)
