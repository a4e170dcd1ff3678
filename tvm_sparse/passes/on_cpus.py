"""What happens to a model on CPUs, from one form to virtual machine code."""

from __future__ import annotations

from typing import Any

from tvm.relax.backend import cpu_generic
from tvm.target import Target

from tvm_sparse.base.config import Config
from tvm_sparse.base.targets import threads_of
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.passes.bytes.fold_scales import FoldScales
from tvm_sparse.passes.bytes.fuse_quantization import FuseQuantization
from tvm_sparse.passes.bytes.fuse_tables import FuseTables
from tvm_sparse.passes.bytes.pad_first import PadFirst
from tvm_sparse.passes.bytes.quantize_rows import QuantizeRows
from tvm_sparse.passes.bytes.read_bytes import ReadBytes
from tvm_sparse.passes.bytes.tabulate_bytes import TabulateBytes
from tvm_sparse.passes.canonical.fold_constants import FoldConstants
from tvm_sparse.passes.canonical.hoist_elementwise import HoistElementwise
from tvm_sparse.passes.canonical.left_products import LeftProducts
from tvm_sparse.passes.device import DevicePasses, Scheduling
from tvm_sparse.passes.finish.apart_in_memory import ApartInMemory
from tvm_sparse.passes.finish.call_items import CallItems
from tvm_sparse.passes.finish.call_parts import CallParts
from tvm_sparse.passes.finish.free_inputs import FreeInputs
from tvm_sparse.passes.finish.join_axes import JoinAxes
from tvm_sparse.passes.finish.lift_weights import LiftWeights
from tvm_sparse.passes.finish.order_extents import OrderExtents
from tvm_sparse.passes.finish.plain_extents import PlainExtents
from tvm_sparse.passes.finish.plan_places import PlanPlaces
from tvm_sparse.passes.finish.raise_assertions import RaiseAssertions
from tvm_sparse.passes.finish.return_tensor import ReturnTensor
from tvm_sparse.passes.finish.share_functions import ShareFunctions
from tvm_sparse.passes.finish.share_tensors import ShareShapes, ShareTensors
from tvm_sparse.passes.finish.view_reshapes import ViewReshapes, read_safely
from tvm_sparse.passes.finish.write_padding import WritePadding
from tvm_sparse.passes.lower.definitions import DEFINITIONS
from tvm_sparse.passes.lower.few_roundings import FewRoundings
from tvm_sparse.passes.lower.fuse import fused
from tvm_sparse.passes.lower.lower_concatenate import LowerConcatenate
from tvm_sparse.passes.lower.lower_contractions import LowerContractions
from tvm_sparse.passes.lower.lower_lines import LowerLines
from tvm_sparse.passes.lower.lower_permutes import LowerPermutes
from tvm_sparse.passes.lower.lower_positions import LowerPositions
from tvm_sparse.passes.lower.lower_reductions import LowerReductions
from tvm_sparse.passes.lower.lower_rows import LowerRows
from tvm_sparse.passes.lower.merge_permutes import MergePermutes
from tvm_sparse.passes.lower.norms import LowerNorms
from tvm_sparse.passes.lower.pooling import LowerPools
from tvm_sparse.passes.lower.round_operands import RoundOperands
from tvm_sparse.passes.lower.take_places import TakePlaces
from tvm_sparse.passes.lower.unroll_recurrences import UnrollRecurrences
from tvm_sparse.passes.lower.widen_products import WidenProducts
from tvm_sparse.passes.shrink.group_products import GroupProducts
from tvm_sparse.passes.shrink.join_phases import JoinPhases
from tvm_sparse.passes.shrink.order_channels import OrderChannels
from tvm_sparse.passes.shrink.remove_channels import RemoveChannels
from tvm_sparse.passes.shrink.remove_taps import RemoveTaps
from tvm_sparse.passes.shrink.split_batch import SplitBatch
from tvm_sparse.passes.shrink.split_open_batch import SplitOpenBatch
from tvm_sparse.passes.shrink.unfold_lines import UnfoldLines
from tvm_sparse.schedules.build import device_of
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import DENSE


def _lower(chooser: Chooser) -> list[Any]:
    machine, notes = machine_of(chooser.target), chooser.notes
    return [
        UnrollRecurrences(whole=chooser.config.precision == Config.precision),
        FoldConstants(),
        RemoveTaps(notes),
        *(_smaller(chooser) if chooser.config.sparse else []),
        UnfoldLines(),
        SplitBatch(machine.caches.near // 2, least=1.0),
        SplitOpenBatch(machine.caches.near // 4, least=1.0),
        FuseQuantization(),
        TabulateBytes(machine),
        WidenProducts(chooser.target, notes.add),
        RoundOperands(chooser.config.precision, chooser.target, notes.add),
        LowerContractions(chooser),
        MergePermutes(),
        FuseTables(machine),
        PadFirst(machine),
        FoldScales(),
        ReadBytes(),
        QuantizeRows(),
        LowerRows(),
        LowerNorms(),
        LowerPools(),
        LowerReductions(threads_of(chooser.target)),
        LowerPositions(),
        TakePlaces(),
        LowerLines(),
        LowerConcatenate(),
        LowerPermutes(),
        *fused(DEFINITIONS, behind=[FewRoundings()]),
        PlainExtents(),
        JoinAxes(threads_of(chooser.target)),
        ShareFunctions(),
    ]


def _smaller(chooser: Chooser) -> list[Any]:
    """Return what takes out of the network what pruning made superfluous."""
    notes = chooser.notes
    forced_dense = not set(DENSE).isdisjoint(chooser.config.force.values())
    return [
        GroupProducts(notes),
        LeftProducts(notes),
        *([] if forced_dense else [JoinPhases(notes, chooser.widened), HoistElementwise()]),
        RemoveChannels(notes),
        OrderChannels(notes),
    ]


def _schedule(s: Scheduling, target: Target) -> list[Any]:
    return [
        s.apply,
        WritePadding(s.rules, s.report),
        LiftWeights(s.packed),
        ViewReshapes(),
        CallParts(),
        CallItems(),
        s.apply,
        FreeInputs(s.free),
        *device_of(target).splitting(),
    ]


def _finalise(target: Target) -> list[Any]:
    return [
        RaiseAssertions(apart=False),
        ReturnTensor(),
        *device_of(target).after_scheduling(target),
        *map(read_safely, cpu_generic.pipeline.dataflow_lower_passes(target)),
        *_own(cpu_generic.pipeline.finalize_passes(target)),
        ApartInMemory(),
        OrderExtents(),
    ]


def _own(steps: list[Any]) -> list[Any]:
    """Return TVM's own passes, with ours in place of one, and behind what they read."""
    found: list[Any] = []
    for step in steps:
        planning = step.info.name == "StaticPlanBlockMemory"
        found += [PlanPlaces() if planning else step, *_BEHIND.get(step.info.name, ())]
    return found


_BEHIND = {"LowerAllocTensor": (ShareTensors(),), "VMShapeLower": (ShareShapes(),)}


CPU = DevicePasses(_lower, _schedule, _finalise, native_main=True)
