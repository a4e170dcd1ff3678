"""Recurrent cells: the next state from a step's input, the state's product and the state.

One formula serves tensors of PyTorch, tensors of a graph and the vectors of a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Parts = dict[str, Any]
"""A value for each gate, by its letter."""


@dataclass(frozen=True)
class Functions:
    """What a cell computes with; ``keep`` takes a value that is read more than once."""

    sigmoid: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    relu: Callable[[Any], Any]
    keep: Callable[[Any], Any] = lambda x: x


@dataclass(frozen=True)
class Cell:
    """One sort of recurrent layer.

    Parameters
    ----------
    gates
        A letter each, in the order in which weights stack them.
    states
        How many tensors go from step to step, the hidden state first.
    step
        ``(functions, x, own, states)`` -> the next states. ``x`` are the input's products, ``own``
        those of the hidden state, biases included.
    """

    gates: str
    states: int
    step: Callable[[Functions, Parts, Parts, list[Any]], list[Any]]


def _lstm(f: Functions, x: Parts, own: Parts, states: list[Any]) -> list[Any]:
    keep, forget, out = (f.sigmoid(x[gate] + own[gate]) for gate in "ifo")
    cell = f.keep(forget * states[1] + keep * f.tanh(x["g"] + own["g"]))
    return [out * f.tanh(cell), cell]


def _gru(f: Functions, x: Parts, own: Parts, states: list[Any]) -> list[Any]:
    reset, update = (f.sigmoid(x[gate] + own[gate]) for gate in "rz")
    new = f.keep(f.tanh(x["n"] + reset * own["n"]))
    return [(states[0] - new) * update + new]


def _rnn_tanh(f: Functions, x: Parts, own: Parts, _states: list[Any]) -> list[Any]:
    return [f.tanh(x["h"] + own["h"])]


def _rnn_relu(f: Functions, x: Parts, own: Parts, _states: list[Any]) -> list[Any]:
    return [f.relu(x["h"] + own["h"])]


CELLS = {
    "lstm": Cell("ifgo", 2, _lstm),
    "lstm_iofg": Cell("iofg", 2, _lstm),
    "gru": Cell("rzn", 1, _gru),
    "gru_zrn": Cell("zrn", 1, _gru),
    "rnn_tanh": Cell("h", 1, _rnn_tanh),
    "rnn_relu": Cell("h", 1, _rnn_relu),
}
"""By name; ONNX stacks gates in other orders than PyTorch."""
