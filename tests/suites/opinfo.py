"""PyTorch's own samples of its operators (``OpInfo``), compiled by ``ts.compile``.

PyTorch's module of them changes flags of the whole process when it is imported: cases are
listed and run in processes of their own (:mod:`tests.suites.workers`).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

import tvm_sparse as ts
from tests.suites.outcomes import (
    RIGHT,
    WRONG,
    Arrays,
    Result,
    difference,
    first_line,
    outcome_of,
)

TITLE = "PyTorch's OpInfo samples"
VERSION = f"torch {torch.__version__.split('+')[0]}"

SAMPLES = 3
"""How many samples of an operator and dtype are taken, the first ones."""

DTYPES = (("float32",), ("int64", "int32"))
"""Each operator is tried with the first dtype of each group that it knows."""

CONFIG = ts.Config(measure=False, cache=False, tuned=False)

RTOL, ATOL = 2e-5, 1e-5

UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty")
"""Operators whose values are whatever the memory holds (prefixes)."""


TIES = {"argsort": 0, "kthvalue": 1, "median": 0, "mode": 0, "nanmedian": 0, "sort": 0, "topk": 1}
"""Operators that may return the place of any of several equal elements as their last output, and
the position of the axis in their arguments: we compare the elements at these places."""


EITHER_SIGN = ("linalg.eigh",)
"""Operators whose last output has columns of either sign."""


@cache
def operators() -> dict[str, Any]:
    """Return PyTorch's descriptions of its operators by their names."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name: op for op in op_db}


def cases() -> list[str]:
    """Return the keys of all samples, some of which may not exist."""
    keys = []
    for name, op in sorted(operators().items()):
        known = {str(d).removeprefix("torch.") for d in op.supported_dtypes("cpu")}
        chosen = [next((d for d in group if d in known), None) for group in DTYPES]
        keys += [f"{name} {d} {i}" for d in chosen if d for i in range(SAMPLES)]
    return keys


def operator_of(key: str) -> str:
    """Return the operator's name in the key of a sample."""
    return key.split(maxsplit=1)[0]


@cache
def samples(name: str, dtype: str, count: int = SAMPLES) -> list[Any]:
    """Return the first ``count`` samples of an operator."""
    torch.manual_seed(0)
    inputs = operators()[name].sample_inputs("cpu", getattr(torch, dtype), requires_grad=False)
    return list(itertools.islice(inputs, count))


class Call(nn.Module):
    """One call of an operator, the tensors among its arguments as inputs."""

    def __init__(self, operator: Callable[..., Any], sample: Any) -> None:
        super().__init__()
        self.operator = operator
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.inputs = tuple(x for x in leaves if isinstance(x, torch.Tensor))
        self.leaves = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return what the operator returns."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.operator(first, *args, **kwargs)


def check(key: str) -> Result | None:
    """Compile one sample and compare it with PyTorch; ``None`` where PyTorch itself has none."""
    name, dtype, index = key.split()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call = Call(operators()[name].op, samples(name, dtype)[int(index)])
            inputs = pytree.tree_map(torch.clone, call.inputs)
            torch.manual_seed(0)
            expected = comparable(name, call, arrays(call(*inputs)))
        except Exception:
            return None
        found: list[Arrays] = []
        outcome, reason = outcome_of(
            lambda: _compiled(name, call, found), expected, rtol=RTOL, atol=ATOL
        )
        if outcome == WRONG and found and not more_exact(name, call, found[0], expected):
            outcome = RIGHT
    return Result(key, name, outcome, reason if outcome != RIGHT else "")


def _compiled(name: str, call: Call, found: list[Arrays]) -> Callable[[], Arrays]:
    """Return a function that runs the compiled call and keeps its outputs in ``found``."""
    # nn.Module finds no tensors in a plain tuple, so the inputs do not become constants.
    library = ts.compile(call, call.inputs, config=CONFIG)

    def run() -> Arrays:
        found.append(comparable(name, call, arrays(library(*call.inputs))))
        return found[0]

    return run


def more_exact(name: str, call: Call, found: Arrays, expected: Arrays, rtol: float = 0) -> str:
    """Return what differs from what PyTorch computes in float64: near a pole it is off itself.

    ``rtol`` is a bound relative to the largest number of each output.
    """
    try:
        wide = [x.double() if x.dtype == torch.float32 else x for x in call.inputs]
        there = comparable(name, call, arrays(call(*wide)))
    except Exception as error:
        return first_line(error)
    exact = [a.astype(e.dtype) for a, e in zip(there, expected, strict=True)]
    if len(found) != len(exact):
        return f"{len(found)} outputs, not {len(exact)}"
    pairs = zip(found, exact, strict=True)
    apart = (difference([f], [e], rtol=RTOL, atol=max(ATOL, rtol * _scale(e))) for f, e in pairs)
    return next((reason for reason in apart if reason), "")


def _scale(array: np.ndarray) -> float:
    """Return the largest finite number of an array."""
    if array.dtype.kind != "f":
        return 0.0
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def comparable(name: str, call: Call, outputs: Arrays) -> Arrays:
    """Return what is determined of ``outputs``: places as the elements there, or only shapes."""
    if name.startswith(UNDEFINED):
        return [np.zeros_like(output) for output in outputs]
    if name in EITHER_SIGN:
        return [*outputs[:-1], np.abs(outputs[-1])]
    if name not in TIES or call.inputs[0].dim() == 0 or (len(outputs) < 2 and name != "argsort"):
        return outputs
    _, args, kwargs = pytree.tree_unflatten(call.leaves, call.spec)
    position = TIES[name]
    axis = args[position] if len(args) > position else kwargs.get("dim", -1)
    x, places = call.inputs[0].numpy(), outputs[-1]
    if places.ndim < x.ndim:
        places = np.expand_dims(places, axis)
    return [*outputs[:-1], np.take_along_axis(x, places, axis)]


def arrays(outputs: Any) -> Arrays:
    """Return the tensors among ``outputs``, as NumPy arrays of their own."""
    leaves = pytree.tree_leaves(outputs)
    tensors = [x.detach().resolve_conj() for x in leaves if isinstance(x, torch.Tensor)]
    arrays = [x for x in leaves if isinstance(x, np.ndarray)]  # a program without inputs
    return [*(x.numpy().copy() for x in tensors), *arrays]
