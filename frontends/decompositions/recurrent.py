"""Recurrent layers: one product of all inputs, then an operator that has all steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from tvm_sparse.frontends.decompositions.table import aten, rule
from tvm_sparse.ops.contractions.cells import CELLS

_STEPS = {
    aten.lstm.input: "lstm",
    aten.gru.input: "gru",
    aten.rnn_tanh.input: "rnn_tanh",
    aten.rnn_relu.input: "rnn_relu",
}
"""The cell of each operator."""


RECURRENT: dict[str, Any] = {}
"""By cell: the function that writes its layers with the operator that has all steps."""


def _enter(operator: Any, cell: str) -> None:
    @rule(operator)
    def layers(  # noqa: PLR0917 (as many as the operators have)
        x: Tensor,
        states: Any,
        weights: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        every = [states] if isinstance(states, Tensor) else list(states)
        options = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
        if not _is_whole(x, every, weights):
            if not _is_whole(x, every, weights, x.dtype) or not _is_open(x, batch_first):
                return decomposition_table[operator](x, states, weights, *options)
            wide = [[tensor.float() for tensor in own] for own in (every, weights)]
            own_states = wide[0][0] if isinstance(states, Tensor) else wide[0]
            found = layers(x.float(), own_states, wide[1], *options)
            return tuple(tensor.to(x.dtype) for tensor in found)
        directions = 1 + bidirectional
        each = len(weights) // (num_layers * directions)
        finals: list[list[Tensor]] = [[] for _ in every]
        for place in range(num_layers):
            rows = []
            for d in range(directions):
                i = place * directions + d
                own, first = weights[i * each : (i + 1) * each], [s[i] for s in every]
                found = direction_of(cell, x, own, first, reverse=d == 1, batch_first=batch_first)
                rows.append(found[0])
                for final, state in zip(finals, found[1:], strict=True):
                    final.append(state)
            x = rows[0] if len(rows) == 1 else torch.cat(rows, -1)
        return (x, *map(torch.stack, finals))

    RECURRENT[cell] = layers


def _is_whole(
    x: Tensor,
    states: list[Tensor],
    weights: Sequence[Tensor],
    precision: torch.dtype = torch.float32,
) -> bool:
    """Whether a layer is one of such a precision and no projection."""
    dtypes = {tensor.dtype for tensor in (x, *states, *weights)}
    projected = len({state.shape[-1] for state in states}) > 1
    return dtypes == {precision} and not projected


def _is_open(x: Tensor, batch_first: bool) -> bool:
    """Whether a layer of half precision has any number of steps: it is computed in single one.

    Steps that are written out, as those of a fixed number are, have no such form.
    """
    half = x.dtype in {torch.float16, torch.bfloat16}
    return half and isinstance(x.shape[int(batch_first)], torch.SymInt)


def direction_of(
    cell: str,
    x: Tensor,
    weights: Sequence[Tensor],
    states: Sequence[Tensor],
    *,
    reverse: bool,
    batch_first: bool,
    rounded: bool = False,
    beside: Tensor | None = None,
) -> list[Tensor]:
    """Return the hidden states of one direction of a layer, then each state behind its last step.

    ``weights`` are those of the input and of the hidden state, then their biases, if there are any.
    The product of the hidden state reads one that is ``rounded``. What stands ``beside`` is added
    to the gates.
    """
    input_bias, bias = weights[2:] or (None, None)
    gates = torch.nn.functional.linear(x, weights[0], input_bias)
    gates = gates if beside is None else gates + beside
    axis, turns = int(batch_first), CELLS[cell].turns
    if turns > 1:  # the states of a cell of several turns are those of ``gru_zrn_reset_first``
        gates = torch.stack([gates] * turns, axis + 1).flatten(axis, axis + 1)
        none = torch.zeros_like(states[0])
        states = [states[0], states[0], none, none - 1]
    rows, *others = torch.ops.tvm_sparse.recurrence(
        gates, weights[1], list(states), bias, cell, reverse, batch_first, rounded
    )
    if turns > 1:
        rows, others = rows.unflatten(axis, (-1, turns)).select(axis + 1, reverse - 1), []
    last = 0 if reverse else rows.shape[axis] - 1
    return [rows, rows.select(axis, last), *others]


for _operator, _cell in _STEPS.items():
    _enter(_operator, _cell)
