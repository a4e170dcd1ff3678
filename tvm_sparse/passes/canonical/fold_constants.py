"""Evaluate operators whose arguments are all constants, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.names import is_mask
from tvm_sparse.base.numerics import is_float
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE, Elementwise, Function
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    name_of,
    op_name,
    place_of,
    rewrite,
    static_shape,
)
from tvm_sparse.passes.graph.weight_formulas import FORMULAS


def _permute(call: relax.Call, x: np.ndarray) -> np.ndarray:
    axes = call.attrs.axes
    return x.transpose(None if axes is None else [int(a) for a in axes])


def _reshape(call: relax.Call, x: np.ndarray) -> np.ndarray:
    return x.reshape(static_shape(call) or ())


def _astype(call: relax.Call, x: np.ndarray) -> np.ndarray:
    return x.astype(str(call.ty.dtype), copy=False)


def _slice(call: relax.Call, x: np.ndarray) -> np.ndarray:
    return x[_place(call, x.ndim)]


def _place(call: relax.Call, dims: int) -> tuple[slice, ...]:
    axes, begin, end, *strides = ([int(n) for n in _numbers(row)] for row in call.args[1:])
    place = [slice(None)] * dims
    for i, axis in enumerate(axes):
        place[axis] = slice(begin[i], end[i], strides[0][i] if strides else 1)
    return tuple(place)


def _which(call: relax.Call, shape: tuple[int, ...]) -> str:
    """Return the part of a tensor of ``shape`` that a slice takes, as in ``[16:32]``."""
    places = zip(_place(call, len(shape)), shape, strict=True)
    bounds = [range(*place.indices(extent)) for place, extent in places]
    parts = [
        ":" if len(part) == extent else f"{part.start}:{part.stop}"
        for part, extent in zip(bounds, shape, strict=True)
    ]
    while parts[-1] == ":":
        parts.pop()
    return f"[{', '.join(parts)}]"


def _numbers(row: Any) -> list[Any]:
    """Return the integers of a tuple; the axes, bounds and strides of a slice are such."""
    return [getattr(field, "value", field) for field in row.fields]


def _broadcast(call: relax.Call, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, static_shape(call) or ())


def _flip(call: relax.Call, x: np.ndarray) -> np.ndarray:
    return np.flip(x, int(call.attrs.axis))


_SHAPED: dict[str, Callable[[relax.Call, np.ndarray], np.ndarray]] = {
    "permute_dims": _permute,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "astype": _astype,
    "broadcast_to": _broadcast,
    "strided_slice": _slice,
    "flip": _flip,
}


class _Fold:
    """The rule; what is read many times (a recurrent weight in each step) is moved only once."""

    def __init__(self) -> None:
        # With the operand, so that its address is not given to another constant.
        self.moved: dict[Any, tuple[Any, Any]] = {}

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        name = op_name(call)
        if name in _WHOLE:
            return _WHOLE[name](rewriter, call)
        traits = ELEMENTWISE.get(name)
        if traits is not None and traits.integers is not None:
            return _compared(rewriter, call, traits.integers)
        if name in _SHAPED:
            operands = list(call.args)[:1]
        elif traits is not None and traits.numpy is not None and _is_known(call, traits):
            operands = list(call.args)
        else:
            return None
        constants = [c for a in operands if (c := rewriter.constant(a)) is not None]
        if len(constants) < len(operands) or _is_open(name, call):
            return None
        if name in _SHAPED or traits is None or traits.numpy is None:
            return self._shaped(name, call, constants[0])
        values = [array_of(c) for c in constants]
        values = values if traits.exact else _wide(values)
        label = _label(constants)
        with np.errstate(all="ignore"):
            return constant(_astype(call, traits.numpy(*values)), label)

    def _shaped(self, name: str, call: relax.Call, const: Any) -> Any:
        key = (name, str(call.attrs), str(call.args[1:]), str(call.ty), *place_of(const))
        if key not in self.moved:
            before = array_of(const)
            value = _SHAPED[name](call, before)
            label = name_of(const)
            if label and name == "strided_slice" and value.size < before.size:
                label += _which(call, before.shape)
            self.moved[key] = (constant(value, label), const)
        return self.moved[key][0]


def _is_open(name: str, call: relax.Call) -> bool:
    """Whether open extents decide the shape of what is computed, or of which row it is made."""
    placed = name in _SHAPED and any(map(relax.analysis.free_vars, call.args[1:]))
    return placed or static_shape(call) is None


def _label(constants: list[Any]) -> str:
    """Return the name of the first of ``constants`` that has one; a mask is named after no other.

    Masks are bits, or have names of their own: what is computed of a weight and its mask is the
    weight.
    """
    named = [c for c in constants if name_of(c)]
    floats = [c for c in named if is_float(str(c.ty.dtype)) and not is_mask(name_of(c))]
    return next((name_of(c) for c in (*floats, *named)), "")


def _is_known(call: relax.Call, traits: Elementwise) -> bool:
    """Whether NumPy gives the bits of an operator, or floats that can be rounded to its type."""
    return traits.exact or is_float(str(call.ty.dtype))


def _wide(values: list[np.ndarray]) -> list[np.ndarray]:
    """Return arrays in double precision: what is computed from them is rounded once."""
    return [value.astype(np.float64) for value in values]


def _joined(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return constants side by side; parts of one weight have its name."""
    pieces = rewriter.resolve(call.args[0])
    fields = pieces.fields if isinstance(pieces, relax.Tuple) else [None]
    constants = [rewriter.constant(field) for field in fields]
    if None in constants:
        return None
    axis = None if call.attrs.axis is None else int(call.attrs.axis)
    names = {name_of(c).partition("[")[0] for c in constants}
    value = np.concatenate([array_of(c) for c in constants], axis)
    return constant(value, names.pop() if len(names) == 1 else "")


def _summed(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return the sums of a constant; those of integers are exact in any order."""
    found, dtype = rewriter.constant(call.args[0]), str(call.ty.dtype)
    if is_float(dtype):
        return _computed(rewriter, call)
    if found is None or "int" not in dtype:
        return None
    axes = None if call.attrs.axis is None else tuple(int(a) for a in call.attrs.axis)
    return constant(array_of(found).sum(axes, dtype=dtype, keepdims=bool(call.attrs.keepdims)))


def _computed(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return what a formula makes of constants, in double precision until it is rounded once."""
    constants = [rewriter.constant(argument) for argument in call.args]
    if None in constants:
        return None
    with np.errstate(all="ignore"):
        result = FORMULAS[op_name(call)](call, *_wide([array_of(c) for c in constants]))
        return constant(_astype(call, result), name_of(constants[0]))


def _compared(rewriter: Rewriter, call: relax.Call, function: Function) -> Any | None:
    """Return comparisons of constant integers, and choices of some: indices are made with them."""
    constants = [c for argument in call.args if (c := rewriter.constant(argument)) is not None]
    if len(constants) < len(call.args) or any(is_float(str(c.ty.dtype)) for c in constants):
        return None
    return constant(_astype(call, function(*map(array_of, constants))))


_WHOLE: dict[str, Callable[[Rewriter, relax.Call], Any | None]] = {
    **dict.fromkeys(FORMULAS, _computed),
    "concat": _joined,
    "sum": _summed,
}
"""Operators that take all of their operands together."""


@tvm.transform.module_pass(opt_level=0, name="FoldConstants")
@dataclass(frozen=True)
class FoldConstants:
    """Evaluate transposes, reshapes and arithmetic on weights; the result keeps the weight's name.

    before: ``multiply(weight, mask)`` --> after: ``const``

    TVM's own ``FoldConstant`` compiles a program for each constant and takes seconds a model.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with constants folded."""
        return rewrite(mod, _Fold())
