"""A third party's sparsity kind: pattern, format, operator and schedule of whole kept columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tvm import s_tir, te

from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.ops.marks import OPERATOR, int64
from tvm_sparse.patterns.base import Evidence, Fit, Pattern
from tvm_sparse.patterns.chance import log_choose, probability
from tvm_sparse.patterns.cost import modelled
from tvm_sparse.patterns.ranking import checked_scores, keep_largest
from tvm_sparse.registry import Kind
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.candidate import Candidate


@dataclass(frozen=True)
class Striped(Pattern):
    """Whole columns are zero, those with the smallest sums."""

    kind: ClassVar[str] = "striped"

    def project(self, scores, sparsity=None):
        scores = checked_scores(scores, "striped")
        keep = round(scores.shape[1] * (1 - sparsity))
        return np.broadcast_to(keep_largest(scores.sum(0), keep), scores.shape).copy()

    @classmethod
    def detect(cls, weight):
        nonzero = weight != 0
        kept = nonzero.any(0)
        if not (nonzero == kept).all() or kept.all():
            return None
        cost = modelled(weight.size, weight.shape[0] * kept.sum(), 0, weight.itemsize)
        chance = probability(
            log_choose(kept.size, kept.sum()) - log_choose(nonzero.size, nonzero.sum())
        )
        evidence = Evidence("column", kept.size, kept.size, chance=chance)
        return Fit(cls(), 1 - nonzero.mean(), evidence, cost=cost)

    def describe(self):
        return "striped"


@dataclass(frozen=True)
class StripedFormat:
    rows: int
    cols: int
    kept: int

    def nbytes(self, dtype="float32"):
        return self.kept * (self.rows * itemsize(dtype) + 4)

    @classmethod
    def of(cls, matrix):
        return cls(*matrix.shape, int((matrix != 0).any(0).sum()))

    def encode(self, matrix):
        columns = np.flatnonzero((matrix != 0).any(0)).astype(np.int32)
        matrix = finite_matrix(matrix, (self.rows, self.cols), "striped")
        return {"values": np.ascontiguousarray(matrix[:, columns]), "columns": columns}

    def decode(self, arrays):
        matrix = np.zeros((self.rows, self.cols), arrays["values"].dtype)
        matrix[:, arrays["columns"]] = arrays["values"]
        return matrix


def striped(c, format):
    """Return ``f(X, values, columns, Y)``: the kept columns of ``X`` times their weights."""
    x = te.placeholder(int64(c.input_shape), c.dtype, "X")
    values = te.placeholder(int64((format.rows, format.kept)), c.dtype, "V")
    columns = te.placeholder(int64((format.kept,)), "int32", "C")
    k = te.reduce_axis((0, format.kept), "k")

    def product(*index):
        *lead, feature = index
        return te.sum(x[(*lead, columns[k])] * values[feature, k], axis=[k])

    y = te.compute(int64(c.output_shape), product, "contract", attrs={OPERATOR: "striped"})
    func = te.create_prim_func([x, values, columns, y])
    return func.with_attr("tirx.noalias", True)


def striped_candidates(contraction, scan, target):
    """Yield the format of a linear layer, or why it does not fit."""
    if len(contraction.taps) or contraction.depthwise:
        yield "striped: linear layers only"
        return
    format = StripedFormat.of(scan.weight)
    func = striped(contraction, format)
    yield Candidate("striped", format, func, work=format.kept / format.cols, penalty=1.1)


class StripedRows(ScheduleRule):
    """Threads share the rows of the product."""

    def apply(self, func, target, tunable):
        schedule = s_tir.Schedule(func)
        for block in schedule.get_child_blocks(schedule.get_sblock("root")):
            if schedule.get(block).annotations.get(OPERATOR) == "striped":
                schedule.parallel(schedule.get_loops(block)[0])
                return schedule
        return None


STRIPED = Kind("striped", Striped, (StripedFormat,), {"llvm": striped_candidates}, (StripedRows(),))
