"""Checks that any sparsity kind must pass, and CUDA models executed without a GPU."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tvm_sparse.base.extras import require
from tvm_sparse.errors import SparseError
from tvm_sparse.patterns.base import Pattern
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.registry import Kind

if TYPE_CHECKING:
    from tvm_sparse.emulation.model import Emulation, emulate

__all__ = ["Emulation", "check_kind", "emulate"]

DTYPES = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype("i1"))
SHAPES = ((256, 512), (37, 101), (16, 16), (1, 40))
DEPTHWISE_SHAPES = ((960, 9), (37, 25), (16, 9), (1, 9))
SPARSITY = 0.8


def __getattr__(name: str) -> Any:
    """Import what executes CUDA models when it is first used: it needs the extra ``emulator``."""
    if name not in ("Emulation", "emulate"):
        raise AttributeError(f"module 'tvm_sparse.testing' has no attribute '{name}'")
    require("emulator", f"tvm_sparse.testing.{name}")
    from tvm_sparse.emulation import model

    return getattr(model, name)


def check_kind(kind: Kind, pattern: Pattern | None = None) -> None:
    """Run the checks that the built-in kinds pass on ``kind``.

    * The pattern's :meth:`~tvm_sparse.patterns.base.Pattern.project` gives flags of the scores'
      shape, the same each time, leaves the scores alone and refuses NaN.
    * It finds its own masks, exactly and not by chance, and claims nothing in random masks.
    * Every format decodes what it encoded, exactly, in fp32, fp16, bf16 and int8, for odd shapes,
      empty rows, zeros only and no zeros; its ``nbytes`` is what the arrays take; it refuses NaN.
    * Every format that the operators offer for a linear layer computes what NumPy computes.

    Parameters
    ----------
    kind
        The record; it need not be registered.
    pattern
        The instance to check; by default ``kind.pattern.example()``.

    Raises
    ------
    AssertionError
        Naming the kind and what does not hold.
    """
    pattern = kind.pattern.example() if pattern is None else pattern
    shapes = DEPTHWISE_SHAPES if kind.pattern.depthwise else SHAPES
    _require(kind, kind.name == pattern.kind, f"its pattern is of kind '{pattern.kind}'")
    _require(kind, bool(pattern.describe()), "describe() is empty")
    for shape in shapes:
        _check_project(kind, pattern, shape)
    _check_detect(kind, pattern, shapes[0])
    for format in kind.formats:
        for shape in shapes:
            _check_format(kind, pattern, format, shape)
    if not kind.pattern.depthwise:
        _check_operators(kind, pattern, shapes[0])


def _require(kind: Kind, holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(f"kind '{kind.name}': {otherwise}")


def _scores(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape, np.float32) + np.float32(0.5)


def _mask(pattern: Pattern, shape: tuple[int, int]) -> np.ndarray:
    return pattern.project(_scores(shape), SPARSITY)


def _refuses(call: Any, *arguments: Any) -> bool:
    """Return whether ``call`` raises an error for users."""
    try:
        call(*arguments)
    except SparseError:
        return True
    return False


def _check_project(kind: Kind, pattern: Pattern, shape: tuple[int, int]) -> None:
    scores = _scores(shape)
    before, mask = scores.copy(), pattern.project(scores, SPARSITY)
    _require(kind, mask.dtype == bool and mask.shape == shape, f"project gives {mask.dtype} flags")
    _require(kind, np.array_equal(scores, before), "project changes the scores")
    again = pattern.project(scores, SPARSITY)
    _require(kind, np.array_equal(mask, again), "project gives another mask the second time")
    scores[0, 0] = np.nan
    _require(kind, _refuses(pattern.project, scores, SPARSITY), "project accepts NaN")


def _check_detect(kind: Kind, pattern: Pattern, shape: tuple[int, int]) -> None:
    family = kind.pattern
    fit = family.detect(_scores(shape) * _mask(pattern, shape))
    if fit is None:
        raise AssertionError(f"kind '{kind.name}': detect does not find {pattern.describe()}")
    _require(kind, isinstance(fit.pattern, family), f"detect finds a {type(fit.pattern).__name__}")
    _require(kind, fit.evidence.exact, f"its own mask is a near miss: {fit.summary()}")
    _require(kind, bool(fit.pattern.describe()), "describe() of a found pattern is empty")
    _require(kind, np.isfinite(fit.cost.relative), "a fit has no cost, so it ranks last")
    for seed in range(20):
        random = np.random.default_rng(seed).random(shape) < (seed + 0.5) / 20
        for found in family.find(Scan(random)):
            text = f"a random mask is claimed to be {found.summary()}"
            _require(kind, found.evidence.chance > 1e-6, text)


def _matrices(pattern: Pattern, shape: tuple[int, int]) -> Iterator[np.ndarray]:
    """Yield integers that every type holds: in the pattern, random, empty and dense."""
    rng = np.random.default_rng(1)
    values = rng.integers(1, 100, shape) * rng.choice([-1, 1], shape)
    yield values * _mask(pattern, shape)
    yield values * (rng.random(shape) < 0.3) * (rng.random((shape[0], 1)) < 0.7)
    yield values * 0
    yield values


def _sized(format: Any, matrix: np.ndarray, pattern: Pattern) -> Any:
    """Return ``format.of(matrix, pattern)``, or ``of(matrix)`` where formats need no pattern."""
    try:
        inspect.signature(format.of).bind(matrix, pattern)
    except TypeError:
        return format.of(matrix)
    return format.of(matrix, pattern)


def _check_format(kind: Kind, pattern: Pattern, format: Any, shape: tuple[int, int]) -> None:
    for dtype in DTYPES:
        for values in _matrices(pattern, shape):
            matrix = values.astype(dtype)
            try:
                sized = _sized(format, matrix, pattern)
            except SparseError:
                continue
            _check_round_trip(kind, sized, matrix)


def _check_round_trip(kind: Kind, sized: Any, matrix: np.ndarray) -> None:
    name, before = f"{type(sized).__name__} {matrix.dtype} {matrix.shape}", matrix.copy()
    arrays = sized.encode(matrix)
    decoded = sized.decode(arrays)
    _require(kind, np.array_equal(matrix, before), f"{name}: encode changes the matrix")
    _require(kind, hash(sized) is not None, f"{name}: extents must be static, hence hashable")
    _require(kind, decoded.dtype == matrix.dtype, f"{name}: decode gives {decoded.dtype}")
    _require(kind, np.array_equal(decoded, matrix), f"{name}: decode(encode(w)) differs from w")
    nbytes, taken = sized.nbytes(matrix.dtype.name), sum(a.nbytes for a in arrays.values())
    _require(kind, nbytes == taken, f"{name}: nbytes is {nbytes}, the arrays take {taken}")
    if matrix.dtype.kind not in "iub":
        bad = matrix.copy()
        bad[-1, -1] = np.nan
        _require(kind, _refuses(sized.encode, bad), f"{name}: encode accepts NaN")


def _check_operators(kind: Kind, pattern: Pattern, shape: tuple[int, int]) -> None:
    import tvm

    from tvm_sparse.base.targets import parse_target
    from tvm_sparse.ops.contractions.contraction import Contraction, reference
    from tvm_sparse.schedules.build import build_function

    rng = np.random.default_rng(2)
    matrix = (rng.integers(1, 5, shape) * _mask(pattern, shape)).astype(np.float32)
    contraction = Contraction((7,), shape[1], shape[0])
    x = rng.integers(-4, 5, contraction.input_shape).astype(np.float32)
    target = parse_target("cpu").target
    offered = kind.operators.get(target.kind.name)
    for candidate in offered(contraction, Scan(matrix), target) if offered else ():
        if isinstance(candidate, str):
            continue
        _check_round_trip(kind, candidate.format, matrix)
        built = build_function(candidate.func, target, kind.schedules)
        out = tvm.runtime.tensor(np.full(contraction.output_shape, np.nan, np.float32))
        arrays = candidate.format.encode(matrix).values()
        built["main"](*(tvm.runtime.tensor(array) for array in (x, *arrays)), out)
        same = np.array_equal(out.numpy(), reference(contraction, x, matrix))
        _require(kind, same, f"operator '{candidate.name}' computes something else")
