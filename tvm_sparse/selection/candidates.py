"""The ways in which one contraction with a given weight can be stored and computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tvm.target import Target

from tvm_sparse.base.table import Table
from tvm_sparse.formats.dense import DenseTapFormat
from tvm_sparse.formats.winograd import WinogradFormat
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.dense import dense, dense_format
from tvm_sparse.ops.contractions.depthwise import depthwise
from tvm_sparse.ops.contractions.depthwise_columns import depthwise_columns, tap_columns_format
from tvm_sparse.ops.contractions.winograd import fits, tiles, winograd, work
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cpu.shifted_rows import shifted_dense
from tvm_sparse.selection.cpu.tiles import tiles_candidates
from tvm_sparse.selection.cuda import candidates as cuda
from tvm_sparse.selection.narrow import stored
from tvm_sparse.selection.operators import OPERATORS


def dense_candidates(contraction: Contraction, target: Target) -> list[Candidate]:
    """Return the ways that do not care for zeros: the direct sum, and others if any."""
    return list(DENSE_OPERATORS.parts()[target.kind.name](contraction, target))


def _on_cpus(contraction: Contraction, target: Target) -> Iterator[Candidate]:
    """Yield the direct sum, that in tiles, that by shifts of planes, and Winograd's."""
    yield _direct(contraction, target)
    yield from tiles_candidates(contraction, target)
    yield from shifted_dense(contraction, target)
    if fits(contraction, target):
        format = WinogradFormat(contraction.features, contraction.columns)
        func = winograd(contraction, format, target)
        fewer = Candidate(
            "winograd", format, func, work(contraction), winograd_penalty(contraction, target)
        )
        if fewer.cost < 1:
            yield fewer


def winograd_penalty(contraction: Contraction, target: Target) -> float:
    """Return the modelled cost of one product relative to the direct sum's.

    Transforming a tile's inputs takes as long as products for four features, its outputs as long
    as those for four columns; with few tiles weights are loaded more than they are multiplied.
    """
    high, wide = tiles(contraction)
    base = costs_of(target).winograd
    return base + 4 / contraction.features + 4 / contraction.columns + 1 / (high * wide)


def dense_candidate(contraction: Contraction, target: Target) -> Candidate:
    """Return the direct sum; it always exists."""
    return next(iter(DENSE_OPERATORS.parts()[target.kind.name](contraction, target)))


def _direct(contraction: Contraction, target: Target) -> Candidate:
    """Return the direct sum on a CPU."""
    if contraction.depthwise:
        return _dense_depthwise(contraction, target)
    format = dense_format(contraction, target)
    func = dense(contraction, format, target)
    return Candidate("dense", stored(format, contraction, target), func, 1.0)


def _dense_depthwise(contraction: Contraction, target: Target) -> Candidate:
    """Return the direct sum of a depthwise convolution, several taps at a time where that fits."""
    columns = tap_columns_format(contraction, target)
    format = columns or DenseTapFormat(*contraction.matrix_shape)
    func = (
        depthwise_columns(contraction, columns, target)
        if columns
        else depthwise(contraction, target)
    )
    return Candidate("dense", stored(format, contraction, target), func, 1.0)


def sparse_candidates(
    contraction: Contraction, scan: Scan, target: Target
) -> Iterator[Candidate | str]:
    """Yield each sparse candidate of a weight, or the sentence that says why one does not fit.

    The matrix of ``scan`` is ``(features, taps * columns)``, columns in ``hwi`` order.
    """
    for operators in OPERATORS:
        if target.kind.name in operators:
            yield from operators[target.kind.name](contraction, scan, target)


DenseOperators: TypeAlias = Callable[[Contraction, Target], Iterator[Candidate]]

DENSE_OPERATORS: Table[DenseOperators] = Table(
    "device", {"llvm": _on_cpus, "cuda": cuda.dense_candidates}
)
"""By TVM's name for the kind of target; the first candidate is the direct sum."""
