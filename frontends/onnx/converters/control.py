"""Control flow that is settled at import: branches taken, loops unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tvm_sparse.errors import SparseError, UnsupportedError
from tvm_sparse.frontends.onnx.agreement import BranchError, OpenExtentError
from tvm_sparse.frontends.onnx.known import Known
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

LONGEST = 4096
"""Rounds of the longest loop that is unrolled."""


def _run(node: Node, graph: Any, inputs: Sequence[Any]) -> list[Any]:
    assert node.run is not None
    return node.run(graph, inputs)


def _tensor(value: Any) -> Any:
    return value.tensor() if isinstance(value, Known) else value


@converter("If", raw=True)
def _branch(condition: Any, *, then_branch: Any, else_branch: Any, node: Node) -> list[Any]:
    """Take a known branch; otherwise compute both and choose, which no operator here forbids."""
    if isinstance(condition, Known):
        return _run(node, then_branch if bool(condition.array) else else_branch, [])
    pairs = zip(_computed(node, then_branch), _computed(node, else_branch), strict=True)
    chosen = []
    for a, b in ((_tensor(a), _tensor(b)) for a, b in pairs):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            raise node.refuse("its branches differ in what they give", "tensors")
        if a.shape != b.shape or a.dtype != b.dtype:
            raise node.refuse(
                f"its branches give {list(a.shape)} and {list(b.shape)}", "the same shape and type"
            )
        chosen.append(torch.where(condition.reshape(()), a, b))
    return chosen


def _computed(node: Node, branch: Any) -> list[Any]:
    """Return the results of a branch that may not be taken, but has to fit all the same."""
    try:
        return _run(node, branch, [])
    except OpenExtentError:
        raise
    except SparseError as error:
        found = (
            f"its condition '{node.inputs[0]}' is known at run time only, so both branches are"
            f" computed, and '{branch.name}' cannot be ({error.found})"
        )
        expected = "branches that both fit, or a known condition"
        refusal = node.refuse(found, expected, node.fixing(node.inputs[0]))
        # At other sizes of open extents it may be.
        fits_none = isinstance(error, UnsupportedError)
        kind = UnsupportedError if fits_none else BranchError
        raise kind(refusal.where, refusal.found, refusal.expected, refusal.todo) from error


@converter("Loop", raw=True)
def _loop(trips: Any, condition: Any = None, *carried: Any, body: Any, node: Node) -> list[Any]:
    limit = _limit(node, trips)
    state: list[Any] = list(carried)
    scanned: list[list[Any]] = [[] for _ in body.output[1 + len(state) :]]
    go, count = condition, 0
    while _goes_on(node, go) and (limit is None or count < limit):
        if count >= LONGEST:
            raise node.refuse("runs very long", f"{LONGEST} rounds or fewer")
        import numpy as np

        number = Known(np.array(count, np.int64))
        go, *results = _run(node, body, [number, condition if go is None else go, *state])
        state, new = results[: len(state)], results[len(state) :]
        for rows, value in zip(scanned, new, strict=True):
            rows.append(_tensor(value))
        count += 1
    if scanned and not count:
        raise node.refuse("gives an empty tensor of a shape that nothing tells", "a round or more")
    return [*state, *(torch.stack(rows) for rows in scanned)]


def _limit(node: Node, trips: Any) -> int | None:
    if trips is None:
        return None
    if not isinstance(trips, Known) or trips.array.dtype == object:
        raise node.refuse("its number of rounds is known at run time", "a constant")
    return int(trips.array.reshape(()))


def _goes_on(node: Node, condition: Any) -> bool:
    if condition is None:
        return True
    if not isinstance(condition, Known):
        raise node.refuse("ends by a condition that is known at run time", "a constant")
    return bool(condition.array.reshape(()))


@converter("Scan", since=9, raw=True)
def _scan(
    *inputs: Any,
    body: Any,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
    node: Node,
) -> list[Any]:
    split = len(inputs) - num_scan_inputs
    state, rows = list(inputs[:split]), [_tensor(x) for x in inputs[split:]]
    axes = scan_input_axes or [0] * len(rows)
    back = scan_input_directions or [0] * len(rows)
    rounds = rows[0].shape[axes[0]]
    if not isinstance(rounds, int):
        raise node.refuse(
            "its number of rounds follows from an open extent",
            f"a known number up to {LONGEST}",
            "fix that extent by example inputs or --shape",
        )
    if not 0 < rounds <= LONGEST:
        raise node.refuse(f"runs {rounds} rounds", f"a known number up to {LONGEST}")
    scanned: list[list[Any]] = [[] for _ in body.output[split:]]
    for i in range(rounds):
        parts = [
            x.select(axis, rounds - 1 - i if turned else i)
            for x, axis, turned in zip(rows, axes, back, strict=True)
        ]
        results = _run(node, body, [*state, *parts])
        state = results[:split]
        for found, value in zip(scanned, results[split:], strict=True):
            found.append(_tensor(value))
    outputs = []
    for k, found in enumerate(scanned):
        turned = bool(scan_output_directions and scan_output_directions[k])
        axis = scan_output_axes[k] if scan_output_axes else 0
        outputs.append(torch.stack(found[::-1] if turned else found, axis))
    return [*state, *outputs]
