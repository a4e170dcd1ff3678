"""Inputs for a program of which only the types are known: their sizes, and numbers for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse_runtime.extents import Bounds, evaluate, names
from tvm_sparse_runtime.spec import TensorSpec

TYPICAL = 64
"""An open extent behind the first axis where nobody says another: words, or the side of a plane."""


class Whole(Enum):
    """What integers and truth values are: without the model, nobody knows which of them it takes.

    Mixed ones are zeros and ones, the first of a line is one. They serve as words, as types of
    words, and as a mask that hides no whole line. Bytes are of any value, being numbers of a
    quantized network or of a picture.
    """

    MIXED = 2
    ONES = 1
    ZEROS = 0


def symbols(specs: Sequence[TensorSpec]) -> list[str]:
    """Return the names of the open extents of inputs, in their order."""
    extents = (e for spec in specs for e in spec.shape if isinstance(e, str))
    return list(dict.fromkeys(name for extent in extents for name in names(extent)))


def sizes(
    specs: Sequence[TensorSpec], bounds: Bounds | None, at: Mapping[str, int] | None = None
) -> Iterator[dict[str, int]]:
    """Yield an extent for each open one of inputs: those ``at``, others as is typical.

    Then others as small as they may be, for models that refuse what is typical. What a first axis
    is made of is a batch, of which one is typical.

    Raises
    ------
    InputError
        ``at`` has a name that no input has.
    """
    found, at, bounds = symbols(specs), at or {}, bounds or {}
    for name in at:
        if name not in found:
            expected = ", ".join(found) or "none, all extents are fixed"
            raise InputError(f"open extent '{name}'", "is no input's", expected)
    usual = {name: at.get(name, _typical(name, specs, bounds)) for name in found}
    least = {name: at.get(name, _least(name, bounds)) for name in found}
    yield usual
    if least != usual:
        yield least


def calls(specs: Sequence[TensorSpec], bounds: Bounds | None) -> Iterator[list[np.ndarray]]:
    """Yield inputs of each of the :func:`sizes`: the next ones for models that refuse the first."""
    return (made_inputs(specs, extents) for extents in sizes(specs, bounds))


def is_whole(spec: TensorSpec) -> bool:
    """Whether an input is made of integers or truth values."""
    return np.dtype(spec.dtype).kind not in "fVc"  # bfloat16 is none of NumPy's own


def _least(name: str, bounds: Bounds) -> int:
    return max(1, bounds.get(name, (1, None))[0])


def _typical(name: str, specs: Sequence[TensorSpec], bounds: Bounds) -> int:
    least, most = _least(name, bounds), bounds.get(name, (0, None))[1]
    first = (spec.shape[0] for spec in specs if spec.shape)
    if any(isinstance(e, str) and name in names(e) for e in first):
        return least
    alone = [e for s in specs for e in s.shape if isinstance(e, str) and names(e) == (name,)]
    size = min(TYPICAL, most or TYPICAL)
    while size > least and any((evaluate(e, {name: size}) or 0) > TYPICAL for e in alone):
        size -= 1
    return max(size, least)


def made_inputs(
    specs: Sequence[TensorSpec], extents: Mapping[str, int], whole: Whole = Whole.MIXED
) -> list[np.ndarray]:
    """Return an array for each input: normal numbers, and integers as ``whole`` says.

    Parameters
    ----------
    specs
        Names, shapes and dtypes.
    extents
        Of each open extent; see :func:`sizes`.
    """
    rng = np.random.default_rng(0)
    found = []
    for spec in specs:
        known = (e if isinstance(e, int) else evaluate(e, extents) for e in spec.shape)
        shape = tuple(1 if e is None else max(e, 0) for e in known)
        dtype = np.dtype(spec.dtype)
        if not is_whole(spec):
            found.append(rng.standard_normal(shape).astype(dtype))
        elif whole is Whole.MIXED and dtype.kind in "iu" and dtype.itemsize == 1:
            limits = np.iinfo(dtype)
            found.append(rng.integers(limits.min, limits.max, shape, endpoint=True, dtype=dtype))
        else:
            found.append(_whole(rng, shape, whole).astype(dtype))
    return found


def _whole(rng: np.random.Generator, shape: tuple[int, ...], whole: Whole) -> np.ndarray:
    if whole is not Whole.MIXED:
        return np.full(shape, whole.value)
    if not shape:
        return np.ones(())
    values = rng.integers(0, 2, shape)
    values[..., :1] = 1
    return values


def told(extents: Mapping[str, int]) -> str:
    """Return sizes as a reader sees them, like ``at B=1, T=64``; nothing without open extents."""
    return f"at {', '.join(f'{name}={size}' for name, size in extents.items())}" if extents else ""
