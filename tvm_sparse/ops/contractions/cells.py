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
    """What a cell computes with.

    ``choose`` returns its second argument where the first one is more than zero, else the third;
    ``keep`` takes a value that is read more than once.
    """

    sigmoid: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    relu: Callable[[Any], Any]
    choose: Callable[[Any, Any, Any], Any]
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
    turns
        How often in turn a step of the layer is taken: a cell that multiplies twice has two.
    """

    gates: str
    states: int
    step: Callable[[Functions, Parts, Parts, list[Any]], list[Any]]
    turns: int = 1


def _lstm(f: Functions, x: Parts, own: Parts, states: list[Any]) -> list[Any]:
    keep, forget, out = (f.sigmoid(x[gate] + own[gate]) for gate in "ifo")
    cell = f.keep(forget * states[1] + keep * f.tanh(x["g"] + own["g"]))
    return [out * f.tanh(cell), cell]


def _gru(f: Functions, x: Parts, own: Parts, states: list[Any]) -> list[Any]:
    reset, update = (f.sigmoid(x[gate] + own[gate]) for gate in "rz")
    new = f.keep(f.tanh(x["n"] + reset * own["n"]))
    return [(states[0] - new) * update + new]


def _gru_reset_first(f: Functions, x: Parts, own: Parts, states: list[Any]) -> list[Any]:
    """Return ``reset * hidden``, which the second turn multiplies, or then the next hidden state.

    The states are what is multiplied, the hidden state, the update, and the turn: less than zero
    in the first one, more in the second.
    """
    read, hidden, update, turn = states
    new = f.keep(f.tanh(x["n"] + own["n"]))
    after = f.keep((hidden - new) * update + new)
    reset, found = (f.keep(f.sigmoid(x[gate] + own[gate])) for gate in "rz")
    return [
        f.choose(turn, after, reset * read),
        f.choose(turn, after, hidden),
        f.choose(turn, update, found),
        -turn,
    ]


def _rnn_tanh(f: Functions, x: Parts, own: Parts, _states: list[Any]) -> list[Any]:
    return [f.tanh(x["h"] + own["h"])]


def _rnn_relu(f: Functions, x: Parts, own: Parts, _states: list[Any]) -> list[Any]:
    return [f.relu(x["h"] + own["h"])]


CELLS = {
    "lstm": Cell("ifgo", 2, _lstm),
    "lstm_iofg": Cell("iofg", 2, _lstm),
    "gru": Cell("rzn", 1, _gru),
    "gru_zrn": Cell("zrn", 1, _gru),
    "gru_zrn_reset_first": Cell("zrn", 4, _gru_reset_first, turns=2),
    "rnn_tanh": Cell("h", 1, _rnn_tanh),
    "rnn_relu": Cell("h", 1, _rnn_relu),
}
"""By name; ONNX stacks gates in other orders than PyTorch."""
