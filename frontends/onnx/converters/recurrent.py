"""Recurrent layers, unrolled: the input's products of all steps are one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tvm_sparse.frontends.converters.affine_bytes import meant, rounded_dynamically
from tvm_sparse.frontends.decompositions.recurrent import direction_of
from tvm_sparse.frontends.onnx.agreement import agree
from tvm_sparse.frontends.onnx.converters.cells import (
    Direction,
    activations,
    gru_step,
    lstm_step,
    rnn_step,
    whole_cell,
)
from tvm_sparse.frontends.onnx.converters.sequence_lengths import of_own_lengths
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

Step = Callable[[Direction, Tensor, list[Tensor]], list[Tensor]]
"""Computes the next states, the hidden one first, from a step's input products."""

_COMMON = (
    "hidden_size",
    "direction",
    "activations",
    "activation_alpha",
    "activation_beta",
    "clip",
    "layout",
)


def _layer(
    node: Node,
    step: Step,
    inputs: Sequence[Tensor | None],
    lengths: Tensor | None,
    states: Sequence[Tensor | None],
) -> list[Tensor]:
    """Return all hidden states, then the last ones of each state."""
    x, weight, recurrence, bias, peepholes = inputs
    assert x is not None and weight is not None and recurrence is not None
    given = node.attributes
    layout, direction = given.get("layout", 0), given.get("direction", "forward")
    if layout:
        x = x.transpose(0, 1)
        states = [s if s is None else s.transpose(0, 1) for s in states]
    if weight.shape[0] != (2 if direction == "bidirectional" else 1):
        raise node.unsound(f"direction '{direction}' with {weight.shape[0]} weights")
    if lengths is not None:
        agree(node, "sequence_lens", lengths, [x.shape[1]])
    for name, s in zip(("initial_h", "initial_c"), states, strict=False):
        if s is not None:
            agree(node, name, s, [weight.shape[0], x.shape[1], recurrence.shape[-1]])
    outputs, finals = [], []
    for d in range(weight.shape[0]):
        input_bias, hidden_bias = (None, None) if bias is None else bias[d].chunk(2)
        layer = Direction(
            weight.narrow(0, d, 1).squeeze(0),
            recurrence.narrow(0, d, 1).squeeze(0),
            input_bias,
            hidden_bias,
            None if peepholes is None else peepholes[d],
            activations(node, d, weight.shape[0]),
            given.get("clip"),
            bool(given.get("input_forget") or given.get("linear_before_reset")),
        )
        zero = x.new_zeros(x.shape[1], recurrence.shape[-1])
        state = [zero if s is None else s[d] for s in states]
        reverse = d == 1 or direction == "reverse"
        is_open = isinstance(x.shape[0], torch.SymInt)
        cell = whole_cell(node, layer, d, weight.shape[0], is_open=is_open)
        rounded = step is _rounded_lstm_step
        if cell and x.dtype == torch.float32:
            biases = [b for b in (input_bias, hidden_bias) if b is not None]
            run = functools.partial(
                direction_of,
                cell,
                weights=[layer.weight, layer.recurrence, *biases],
                states=state,
                batch_first=False,
                rounded=rounded,
            )
            if lengths is None:
                rows, *final = run(x, reverse=reverse)
            else:
                rows, *final = of_own_lengths(run, x, lengths, state, reverse=reverse)
        else:
            rows, final = _direction(layer, step, x, lengths, state, reverse=reverse)
        outputs.append(rows)
        finals.append(final)
    every = torch.stack(outputs, 1)
    last = [torch.stack(parts) for parts in zip(*finals, strict=True)]
    if layout:
        return [every.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in last)]
    return [every, *last]


def _direction(
    layer: Direction,
    step: Step,
    x: Tensor,
    lengths: Tensor | None,
    state: list[Tensor],
    *,
    reverse: bool,
) -> tuple[Tensor, list[Tensor]]:
    """Run the steps; behind a sequence's length the state stays and the output is zero."""
    gates = F.linear(x, layer.weight, layer.input_bias)
    steps = list(range(x.shape[0]))
    rows: list[Tensor] = [x] * len(steps)
    for t in reversed(steps) if reverse else steps:
        if lengths is None:
            state = step(layer, gates[t], state)
            rows[t] = state[0]
            continue
        alive = (lengths > t)[:, None]
        hidden = torch.where(alive, state[0], 0.0)  # what is rounded with those of the others
        new = step(layer, gates[t], [hidden, *state[1:]])
        state = [torch.where(alive, a, b) for a, b in zip(new, state, strict=True)]
        rows[t] = torch.where(alive, new[0], torch.zeros_like(new[0]))
    return torch.stack(rows), state


@converter("LSTM", since=7, reads=(*_COMMON, "input_forget"))
def _lstm(  # noqa: PLR0917 (as many as the operator has)
    x: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    hidden: Tensor | None = None,
    cell: Tensor | None = None,
    peepholes: Tensor | None = None,
    *,
    node: Node,
) -> list[Tensor]:
    inputs = (x, weight, recurrence, bias, peepholes)
    return _layer(node, lstm_step, inputs, lengths, [hidden, cell])


@converter("DynamicQuantizeLSTM", domain="com.microsoft", reads=(*_COMMON, "input_forget"))
def _rounded_lstm(  # noqa: PLR0917 (as many as the operator has)
    x: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None,
    lengths: Tensor | None,
    hidden: Tensor | None,
    cell: Tensor | None,
    peepholes: Tensor | None,
    weight_scale: Tensor,
    weight_zero: Tensor,
    recurrence_scale: Tensor,
    recurrence_zero: Tensor,
    *,
    node: Node,
) -> list[Tensor]:
    """Its weights are bytes, as ``(direction, input, gates)``; input and state are rounded, too."""
    weights = [
        _transposed(weight, weight_scale, weight_zero),
        _transposed(recurrence, recurrence_scale, recurrence_zero),
    ]
    inputs = (rounded_dynamically(_used(x, lengths, node)), *weights, bias, peepholes)
    return _layer(node, _rounded_lstm_step, inputs, lengths, [hidden, cell])


def _used(x: Tensor, lengths: Tensor | None, node: Node) -> Tensor:
    """Return ``x`` with zeros behind the longest sequence, on which no scale depends."""
    if lengths is None:
        return x
    axis = 1 if node.attributes.get("layout", 0) else 0
    if node.attributes.get("direction", "forward") != "forward" and x.shape[1 - axis] != 1:
        reason = "several sequences with lengths of their own are read backwards"
        raise node.refuse(reason, "one sequence, or one direction", "leave the layer float")
    used = torch.arange(x.shape[axis]) < lengths.max()
    return torch.where(used[:, None] if axis else used[:, None, None], x, 0.0)


def _rounded_lstm_step(layer: Direction, gates: Tensor, state: list[Tensor]) -> list[Tensor]:
    """Return the next hidden and cell state; what the hidden one multiplies is rounded first."""
    hidden, cell = state
    return lstm_step(layer, gates, [rounded_dynamically(hidden), cell])


def _transposed(weight: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Return what bytes mean, gates first; scales are those of directions or of gates."""
    shape = (weight.shape[0], 1, -1)
    return meant(weight, scale.reshape(shape), zero.reshape(shape)).transpose(1, 2)


@converter("GRU", "RNN", since=7, reads=(*_COMMON, "linear_before_reset"))
def _of_one_state(  # noqa: PLR0917 (as many as the operators have)
    x: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    hidden: Tensor | None = None,
    *,
    node: Node,
) -> list[Tensor]:
    step = gru_step if node.operator == "GRU" else rnn_step
    return _layer(node, step, (x, weight, recurrence, bias, None), lengths, [hidden])
