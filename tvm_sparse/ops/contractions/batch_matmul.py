"""Matrix products of two activations, as attention has them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import te, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from tvm_sparse.base.numerics import FLOAT32, Numerics
from tvm_sparse.machine.engine.registry import single_engine_of
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, ROWS, flat, int64, row_axis
from tvm_sparse.ops.tensors.reshape import source_of

PACK = "pack"
"""Name of the block that copies the right operand into rows."""

UNSEEN = "unseen"
"""Name of the block that holds a result whose view is stored; the view is computed into it."""


@dataclass(frozen=True)
class View:
    """An activation seen through reshapes, transposes and slices that cost nothing here.

    ``steps`` are applied in order to a tensor of ``shape``: ``("reshape", shape)``,
    ``("permute_dims", axes)``, ``("strided_slice", (*begins, *extents))`` of all axes or
    ``("broadcast_to", shape)``. Extents may be symbolic.
    """

    shape: tuple[Any, ...]
    steps: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @property
    def shapes(self) -> list[tuple[Any, ...]]:
        """Shapes of the tensor and after each step."""
        shapes = [self.shape]
        for step, argument in self.steps:
            if step == "permute_dims":
                shapes.append(tuple(shapes[-1][axis] for axis in argument))
            else:
                sliced = step == "strided_slice"
                shapes.append(_halves(argument)[1] if sliced else argument)
        return shapes

    def apply(self, x: te.Tensor, name: str) -> Any:
        """Return the viewed TE tensor."""
        viewed = self.shapes[-1]

        def element(*index: Any) -> Any:
            analyzer = Analyzer()
            for axis, extent in zip(index, viewed, strict=True):
                analyzer.bind(axis, tvm.ir.Range(0, *int64((extent,))))
            return x[tuple(analyzer.simplify(i) for i in self.source(index))]

        return te.compute(int64(viewed), element if self.steps else lambda *i: x[i], name)

    def contiguous(self) -> bool:
        """Whether neighbours along the last viewed axis are neighbours in memory."""
        return bool((np.diff(self.sample().places(), axis=-1) == 1).all())

    def keeps_rows(self) -> bool:
        """Whether all elements are seen, and neighbours along the last axis as neighbours."""
        sample = self.sample()
        places = sample.places()
        if places.size != math.prod(sample.shape):
            return False
        seen_at = np.argsort(places, axis=None).reshape(sample.shape)
        return bool((np.diff(seen_at, axis=-1) == 1).all())

    def sample(self) -> View:
        """Return the view of a tensor with a number for each symbol, large and prime."""
        sizes = _sizes([extent for shape in (self.shape, *self.shapes) for extent in shape])

        def number(extent: Any) -> int:
            return _value(extent, sizes)

        steps = (
            (name, argument if name == "permute_dims" else tuple(map(number, argument)))
            for name, argument in self.steps
        )
        return View(tuple(map(number, self.shape)), tuple(steps))

    def places(self) -> np.ndarray:
        """Return where in memory each viewed element lies, of static extents."""
        index = np.indices(self.shapes[-1], sparse=True)
        places: np.ndarray = flat(self.source(index), self.shape)
        return np.broadcast_to(places, self.shapes[-1])

    def source(self, index: Sequence[Any]) -> list[Any]:
        """Return the index in the tensor of the viewed element at ``index``."""
        at = list(index)
        steps = zip(reversed(self.steps), reversed(self.shapes[:-1]), strict=True)
        for (step, argument), before in steps:
            if step == "reshape":
                at = source_of(at, argument, before)
            elif step == "permute_dims":
                at = [at[argument.index(axis)] for axis in range(len(before))]
            elif step == "broadcast_to":
                kept = zip(at[len(at) - len(before) :], before, strict=True)
                at = [0 * i if isinstance(n, int) and n == 1 else i for i, n in kept]
            else:
                at = [i + begin for i, begin in zip(at, _halves(argument)[0], strict=True)]
        return at


_PRIMES = (17, 19, 5, 3, 7)
"""Extents that stand for symbols: what is side by side with these is so with all."""

_ROUNDS = 16
"""So often a symbol is doubled until what is made of it is an extent."""

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)


def _sizes(extents: Sequence[Any]) -> dict[Any, int]:
    """Return a size for each symbol with which no extent is one, or at least none is zero.

    Some thousand samples of sound are a few frames, and 17 samples are none.
    """
    open_ones = [extent for extent in extents if not isinstance(extent, int)]
    symbols = dict.fromkeys(v for e in open_ones for v in tirx.analysis.undefined_vars(e))
    plain = {var: _PRIMES[place % len(_PRIMES)] for place, var in enumerate(symbols)}
    for least in (2, 1):
        sizes = dict(plain)
        for _ in range(_ROUNDS):
            small = [extent for extent in open_ones if _value(extent, sizes) < least]
            if not small:
                return sizes
            for var in dict.fromkeys(v for e in small for v in tirx.analysis.undefined_vars(e)):
                sizes[var] = 2 * sizes[var] + 1
    return plain


def _value(extent: Any, sizes: Mapping[Any, int]) -> int:
    """Return an extent with ``sizes`` in the place of symbols; zero where it divides by zero."""
    if isinstance(extent, int):
        return extent
    divisors: list[Any] = []
    tvm_ffi.structural_walk(extent, (_DIVISIONS, lambda division: divisors.append(division.b)))
    if any(_value(divisor, sizes) == 0 for divisor in divisors):
        return 0
    known = {var: tirx.const(n, str(var.ty.dtype)) for var, n in sizes.items()}
    value = tvm_ffi.structural_map(extent, (tirx.Var, lambda var: known.get(var, var)))
    return int(Analyzer().simplify(value))


def _halves(argument: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the begins and the extents of a slice."""
    rank = len(argument) // 2
    return argument[:rank], argument[rank:]


def batch_matmul(
    left: View, right: View, output: View, target: Target, numerics: Numerics = FLOAT32
) -> tirx.PrimFunc:
    """Return ``f(A, B, Y)``: ``Y`` is ``output`` of ``sum_k A[..., m, k] * B[..., k, n]``.

    ``A`` and ``B`` have the views' base shapes; leading axes of ``B`` broadcast as NumPy's do. A
    right operand whose rows are not contiguous is packed first. ``output`` keeps rows.
    """
    engine = single_engine_of(numerics, target)
    a_base = te.placeholder(int64(left.shape), numerics.activation, "A")
    b_base = te.placeholder(int64(right.shape), engine.held, "B")
    a = left.apply(a_base, "left")
    b = right.apply(b_base, "right" if right.contiguous() else PACK)
    k = te.reduce_axis((tirx.const(0, "int64"), a.shape[-1]), "k")

    def product(*index: Any) -> Any:
        *lead, row, column = index
        x = a[(*_broadcast(lead, a), row, k.var)]
        return te.sum(x * b[(*_broadcast(lead, b), k.var, column)], axis=[k])

    lead = output.shape[:-1]
    rows = row_axis(lead) if isinstance(lead[-1], int) else len(lead) - 1
    attrs = {OPERATOR: "matmul", ROWS: rows}
    acc = te.compute(int64(output.shape), product, name="contract", attrs=attrs)
    unseen = te.compute(acc.shape, lambda *i: acc[i], UNSEEN) if output.steps else acc
    y = output.apply(unseen, "store")
    func = te.create_prim_func([a_base, b_base, y]).with_attr(FUSION, OUT_FUSABLE)
    return func.with_attr("tirx.noalias", True)


def _broadcast(lead: list[Any], tensor: Any) -> list[Any]:
    """Leading index of ``tensor`` for the output's leading index ``lead``."""
    own = list(tensor.shape[:-2])
    aligned = lead[len(lead) - len(own) :]
    return [0 if _is_one(e) else i for i, e in zip(aligned, own, strict=True)]


def _is_one(extent: Any) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == 1
