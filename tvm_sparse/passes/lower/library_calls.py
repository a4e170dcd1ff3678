"""What a library computes of a fused function: the product, and how much of what is behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops import ieee
from tvm_sparse.ops.cuda.library import CONVOLUTION, LINEAR
from tvm_sparse.ops.marks import LIBRARY
from tvm_sparse.passes.graph.nests import Nest, is_load, nests_of


@dataclass(frozen=True)
class LibraryCall:
    """A call of a library, and what is left for a kernel of ours behind it.

    ``asked`` is the mark of the product: the runtime's function and its numbers. ``x``, the arrays
    of ``weights``, ``bias`` and ``residual`` are parameters of the function (the last two: or
    None), ``out`` is what the call writes: its result, or an array that ``behind`` reads. Sums are
    rounded once to ``dtype``, which is that of ``bias``, too, unless that must be ``narrowed``.
    Last of all may be a ``relu``.
    """

    asked: dict[str, Any]
    x: Any
    weights: tuple[Any, ...]
    out: Any
    behind: tuple[Nest, ...]
    bias: Any = None
    residual: Any = None
    relu: bool = False

    @property
    def convolves(self) -> bool:
        """Whether it is a convolution: only behind a bias anything else goes into the call."""
        return str(self.asked["function"]) == CONVOLUTION

    @property
    def keeps_type(self) -> bool:
        """Whether all that is read and written must have one type."""
        return str(self.asked["function"]) != LINEAR

    @property
    def dtype(self) -> str:
        """The result's dtype."""
        return str(self.out.dtype)

    @property
    def narrowed(self) -> bool:
        """Whether the bias is of more digits than the result."""
        return self.bias is not None and str(self.bias.dtype) != self.dtype


def asks(func: tirx.PrimFunc) -> bool:
    """Whether a library is to compute a product of ``func``, if it can."""
    return any(LIBRARY in nest.block.annotations for nest in nests_of(func) or ())


def library_call(func: tirx.PrimFunc, *, with_bias: bool = True) -> LibraryCall | None:
    """Return what a library computes of ``func``; None if it has no product for one.

    What is behind the product goes into the call where a library computes the same: a bias, the
    conversion to the type of the input, a tensor that is added. A ReLU does where what it makes of
    NaN is promised: behind convolutions. These, and 2:4 products, have one type for all that is
    read and written.
    """
    nests = nests_of(func)
    stores = [i for i, nest in enumerate(nests or ()) if LIBRARY in nest.block.annotations]
    if nests is None or len(stores) != 1:
        return None
    (at,) = stores
    x, *weights = _multiplied(nests[:at])
    asked = dict(nests[at].block.annotations[LIBRARY])
    call = LibraryCall(asked, x, tuple(weights), nests[at].written, tuple(nests[at + 1 :]))
    if not all(_is_param(func, one) for one in (x, *weights)):
        return None
    while (longer := _absorbed(func, call, with_bias)) is not None:
        call = longer
    if call.keeps_type and call.dtype != str(call.x.dtype):
        return None
    return replace(call, behind=_with_sources(nests, call))


def _multiplied(nests: list[Nest]) -> list[Any]:
    """Return activations and weights: what is staged, or what the product reads in place."""
    read = {n.block.name_hint: [region.source for region in n.block.reads] for n in nests}
    if "stage_x" in read:
        staged = ("stage_x", "stage_w", "stage_v", "stage_i")
        return [read[name][0] for name in staged if name in read]
    return read["contract"][:2]


def _with_sources(nests: list[Nest], call: LibraryCall) -> tuple[Nest, ...]:
    """Return the nests behind, and those before the product that compute what they read."""
    needed = list(call.behind)
    for nest in reversed(nests[: len(nests) - len(needed)]):
        wanted = any(other.reads(nest.written) for other in needed)
        if wanted and not nest.written.same_as(call.out):
            needed.insert(0, nest)
    return tuple(needed)


def _absorbed(func: tirx.PrimFunc, call: LibraryCall, with_bias: bool) -> LibraryCall | None:
    """Return ``call`` with the next nest in it, if the library computes that.

    Nobody else may read what is between, which is not stored any more then.
    """
    if not call.behind or call.relu or _is_param(func, call.out):
        return None
    nest, *rest = call.behind
    if any(other.reads(call.out) for other in rest) or not _same_shape(nest.written, call.out):
        return None
    value, field = nest.result, dict[str, Any]()
    if _is_relu(nest, value, call):
        field = {"relu": True}
    elif not _is_rounding(nest, value, call):
        field = _added(func, nest, value, call, with_bias)
        if not field:
            return None
    return replace(call, out=nest.written, behind=tuple(rest), **field)


def _is_rounding(nest: Nest, value: Any, call: LibraryCall) -> bool:
    """Whether the sums, and a bias with them, are rounded to the type of the input."""
    free = call.residual is None and call.dtype == FLOAT_SUMS
    wanted = free and str(nest.written.dtype) == str(call.x.dtype)
    return wanted and isinstance(value, tirx.Cast) and nest.loads(value.value, call.out)


def _is_relu(nest: Nest, value: Any, call: LibraryCall) -> bool:
    """Whether the result of a convolution is at least zero."""
    free = call.convolves and call.bias is not None and call.dtype == str(call.x.dtype)
    if not free:
        return False
    element = call.out[tuple(var.var for var in nest.block.iter_vars)]
    relu = ieee.largest(tirx.const(0, call.dtype), element)
    return bool(tvm_ffi.structural_equal(value, relu))


def _added(
    func: tirx.PrimFunc, nest: Nest, value: Any, call: LibraryCall, with_bias: bool
) -> dict[str, Any]:
    """Return which field a parameter is that is added to the result; none if nothing is."""
    other = _addend(nest, value, call)
    if other is None or not _is_param(func, other.source) or call.residual is not None:
        return {}
    if nest.last(other):
        return {"bias": other.source} if with_bias and call.bias is None else {}
    whole = nest.whole(other) and _same_shape(other.source, call.out)
    same = str(other.source.dtype) == str(call.x.dtype) == call.dtype
    if call.convolves and call.bias is None:
        return {}
    return {"residual": other.source} if whole and same else {}


def _addend(nest: Nest, value: Any, call: LibraryCall) -> Any | None:
    """Return the load that is added to the result of ``call``, if ``value`` is such a sum."""
    if not isinstance(value, tirx.Add):
        return None
    for mine, other in ((value.a, value.b), (value.b, value.a)):
        if nest.loads(mine, call.out) and is_load(other) and not other.source.same_as(call.out):
            return other
    return None


def _is_param(func: tirx.PrimFunc, buffer: Any) -> bool:
    return any(param.same_as(buffer) for param in func.params)


def _same_shape(a: Any, b: Any) -> bool:
    extents = [[int(e) if isinstance(e, tirx.IntImm) else str(e) for e in x.shape] for x in (a, b)]
    return bool(extents[0] == extents[1])
