"""A third party's device: any machine with a C compiler. Its code is C, which TVM writes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
from tvm import relax, s_tir, te
from tvm.relax.backend import cpu_generic

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import itemsize
from tvm_sparse.ops.marks import OPERATOR, int64
from tvm_sparse.passes.canonical.fold_constants import FoldConstants
from tvm_sparse.passes.device import DevicePasses
from tvm_sparse.passes.finish.lift_weights import LiftWeights
from tvm_sparse.passes.lower.lower_contractions import LowerContractions
from tvm_sparse.schedules.device import Device
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.candidate import Candidate

KIND = "c"


@dataclass(frozen=True)
class RowMajor:
    """The matrix as it is."""

    rows: int
    cols: int

    def nbytes(self, dtype="float32"):
        return self.rows * self.cols * itemsize(dtype)

    def encode(self, matrix):
        return {"values": np.ascontiguousarray(matrix)}

    def decode(self, arrays):
        return arrays["values"]


def dense_candidates(c, target):
    """Yield the sum over all columns; convolutions are refused by name."""
    if len(c.taps) or c.depthwise:
        raise UnsupportedError("target 'c'", "a convolution", "linear layers")
    x = te.placeholder(int64(c.input_shape), c.dtype, "X")
    values = te.placeholder(int64((c.features, c.columns)), c.dtype, "V")
    k = te.reduce_axis((0, c.columns), "k")

    def product(*index):
        *lead, feature = index
        return te.sum(x[(*lead, k)] * values[feature, k], axis=[k])

    y = te.compute(int64(c.output_shape), product, "contract", attrs={OPERATOR: "row major"})
    func = te.create_prim_func([x, values, y]).with_attr("tirx.noalias", True)
    yield Candidate("dense", RowMajor(c.features, c.columns), func, 1.0)


class Unrolled(ScheduleRule):
    """Four columns a step."""

    def apply(self, func, target, tunable):
        schedule = s_tir.Schedule(func)
        for block in schedule.get_child_blocks(schedule.get_sblock("root")):
            if schedule.get(block).annotations.get(OPERATOR) == "row major":
                *_, columns = schedule.get_loops(block)
                schedule.unroll(schedule.split(columns, [None, 4])[1])
                return schedule
        return None


def _lower(chooser):
    return [
        FoldConstants(),
        LowerContractions(chooser),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]


def _schedule(scheduling, _target):
    return [scheduling.apply, LiftWeights(scheduling.packed)]


def _finalise(target):
    return [
        *cpu_generic.pipeline.dataflow_lower_passes(target),
        *cpu_generic.pipeline.finalize_passes(target),
    ]


DEVICE = Device(
    rules=(Unrolled(),),
    pass_config={},
    context=lambda target: contextlib.nullcontext(),
    options=lambda target, mod: target,
    splitting=list,
    after_scheduling=lambda target: [],
)
PASSES = DevicePasses(_lower, _schedule, _finalise)
