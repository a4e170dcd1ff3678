"""Steps of recurrent cells, and their activations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tvm_sparse.frontends.onnx.node import Node

_DEFAULTS = {
    "LSTM": ["Sigmoid", "Tanh", "Tanh"],
    "DynamicQuantizeLSTM": ["Sigmoid", "Tanh", "Tanh"],
    "GRU": ["Sigmoid", "Tanh"],
    "RNN": ["Tanh"],
}

_ACTIVATIONS: dict[str, Callable[[Tensor, Any, Any], Tensor]] = {
    "Tanh": lambda x, a, b: torch.tanh(x),
    "Sigmoid": lambda x, a, b: torch.sigmoid(x),
    "Relu": lambda x, a, b: F.relu(x),
    "LeakyRelu": lambda x, a, b: F.leaky_relu(x, 0.01 if a is None else a),
    "ThresholdedRelu": lambda x, a, b: torch.where(x > (1.0 if a is None else a), x, x * 0),
    "Elu": lambda x, a, b: F.elu(x, 1.0 if a is None else a),
    "Softsign": lambda x, a, b: x / (1 + x.abs()),
    "Softplus": lambda x, a, b: F.softplus(x),
    "Affine": lambda x, a, b: (1.0 if a is None else a) * x + (0.0 if b is None else b),
    "HardSigmoid": lambda x, a, b: (
        (0.2 if a is None else a) * x + (0.5 if b is None else b)
    ).clamp(0, 1),
    "ScaledTanh": lambda x, a, b: (
        (1.0 if a is None else a) * torch.tanh((1.0 if b is None else b) * x)
    ),
}


@dataclass(frozen=True)
class Direction:
    """One direction of a layer.

    Parameters
    ----------
    weight, recurrence
        (gates * hidden, input) and (gates * hidden, hidden).
    input_bias, hidden_bias
        (gates * hidden,), or None.
    peepholes
        (3 * hidden,) for an LSTM that has some.
    activations
        Functions in ONNX's order.
    clip
        Bound of the activations' arguments, or None.
    flag
        ``linear_before_reset`` of a GRU, ``input_forget`` of an LSTM.
    """

    weight: Tensor
    recurrence: Tensor
    input_bias: Tensor | None
    hidden_bias: Tensor | None
    peepholes: Tensor | None
    activations: list[Callable[[Tensor], Tensor]]
    clip: float | None
    flag: bool

    def act(self, which: int, x: Tensor) -> Tensor:
        """Apply an activation to the clipped ``x``."""
        x = x if self.clip is None else x.clamp(-self.clip, self.clip)
        return self.activations[which](x)


def _activation(name: str, a: float | None, b: float | None, x: Tensor) -> Tensor:
    return _ACTIVATIONS[name](x, a, b)


def lstm_step(layer: Direction, gates: Tensor, state: list[Tensor]) -> list[Tensor]:
    """Return the next hidden and cell state."""
    hidden, cell = state
    gates = gates + F.linear(hidden, layer.recurrence, layer.hidden_bias)
    i, o, f, c = gates.chunk(4, -1)
    if layer.peepholes is not None:
        p_in, p_out, p_forget = layer.peepholes.chunk(3)
        i, f = i + p_in * cell, f + p_forget * cell
    i = layer.act(0, i)
    f = 1 - i if layer.flag else layer.act(0, f)
    cell = f * cell + i * layer.act(1, c)
    if layer.peepholes is not None:
        o = o + p_out * cell
    return [layer.act(0, o) * layer.act(2, cell), cell]


def gru_step(layer: Direction, gates: Tensor, state: list[Tensor]) -> list[Tensor]:
    """Return the next hidden state."""
    (hidden,) = state
    size = hidden.shape[-1]
    z, r, h = gates.chunk(3, -1)
    if layer.flag:
        own = F.linear(hidden, layer.recurrence, layer.hidden_bias)
        own_z, own_r, own_h = own.chunk(3, -1)
        z, r = layer.act(0, z + own_z), layer.act(0, r + own_r)
        h = layer.act(1, h + r * own_h)
    else:
        bias = layer.hidden_bias
        first = None if bias is None else bias[: 2 * size]
        last = None if bias is None else bias[2 * size :]
        own_z, own_r = F.linear(hidden, layer.recurrence[: 2 * size], first).chunk(2, -1)
        z, r = layer.act(0, z + own_z), layer.act(0, r + own_r)
        h = layer.act(1, h + F.linear(r * hidden, layer.recurrence[2 * size :], last))
    return [(1 - z) * h + z * hidden]


def rnn_step(layer: Direction, gates: Tensor, state: list[Tensor]) -> list[Tensor]:
    """Return the next hidden state."""
    return [layer.act(0, gates + F.linear(state[0], layer.recurrence, layer.hidden_bias))]


def whole_cell(
    node: Node, layer: Direction, direction: int, directions: int, *, is_open: bool
) -> str:
    """Return the cell of :data:`.cells.CELLS` that ``node`` is, empty if it is none.

    With other activations, peepholes or bounds it is none, nor with gates of the state that are
    reset first, if the number of steps is not ``is_open``: written out, each multiplies once.
    """
    if layer.peepholes is not None or layer.clip is not None:
        return ""
    every = [name.lower() for name in _names(node, directions)]
    names = _of_direction(every, direction, directions)
    if node.operator == "RNN":
        return {"tanh": "rnn_tanh", "relu": "rnn_relu"}.get(names[0], "")
    if names != [name.lower() for name in _DEFAULTS[node.operator]]:
        return ""
    if node.operator == "GRU":
        return "gru_zrn" if layer.flag else "gru_zrn_reset_first" * is_open
    return "" if layer.flag else "lstm_iofg"


def _names(node: Node, directions: int) -> list[str]:
    """Return the names of the activations of all directions."""
    return node.attributes.get("activations") or _DEFAULTS[node.operator] * directions


def _of_direction(values: list[Any], direction: int, directions: int) -> list[Any]:
    """Return the values of one direction, of those of all in order."""
    each = len(values) // directions
    return values[direction * each : (direction + 1) * each]


def activations(node: Node, direction: int, directions: int) -> list[Callable[[Tensor], Tensor]]:
    """Return the activations of one of so many directions of ``node``.

    Raises
    ------
    InputError
        One is unknown.
    """
    given = node.attributes
    alphas, betas = list(given.get("activation_alpha", ())), list(given.get("activation_beta", ()))
    found: list[Callable[[Tensor], Tensor]] = []
    takes = {"Affine": 2, "HardSigmoid": 2, "ScaledTanh": 2}
    ones = {"LeakyRelu": 1, "ThresholdedRelu": 1, "Elu": 1}
    for name in _names(node, directions):
        exact = next((n for n in _ACTIVATIONS if n.lower() == name.lower()), None)
        if exact is None:
            raise node.unsound(f"activation '{name}'", ", ".join(_ACTIVATIONS))
        count = takes.get(exact, ones.get(exact, 0))
        a = alphas.pop(0) if count and alphas else None
        b = betas.pop(0) if count == 2 and betas else None
        found.append(functools.partial(_activation, exact, a, b))
    return _of_direction(found, direction, directions)
