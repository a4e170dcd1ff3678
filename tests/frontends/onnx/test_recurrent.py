"""Recurrent layers of ONNX against float64: every direction, state, length, with sparse gates."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
HIDDEN, INPUTS, BATCH, STEPS = 32, 48, 2, 2


def _weights(rng, operator, directions, *given):
    """Return gates of which about a quarter is not zero, and a bias and state if ``given``."""
    rows = GATES[operator] * HIDDEN
    shapes = {"weight": (directions, rows, INPUTS), "recurrence": (directions, rows, HIDDEN)}
    drawn = {name: rng.standard_normal(shape) / 4 for name, shape in shapes.items()}
    found = {name: value * (rng.random(value.shape) < 0.25) for name, value in drawn.items()}
    more = {"bias": (directions, 2 * rows), "hidden": (directions, BATCH, HIDDEN)}
    found |= {name: rng.standard_normal(more[name]) for name in given}
    return {name: value.astype(np.float32) for name, value in found.items()}


def _compiled(tmp_path, operator, weights, **attributes):
    """Return the file and the library of one layer with these weights and states."""
    places = ("weight", "recurrence", "bias", "lengths", "hidden")
    inputs = " ".join(name if name in weights else "-" for name in places)
    layer = node(operator, f"x {inputs}", "y last", hidden_size=HIDDEN, **attributes)
    model = graph([layer], {"x": [STEPS, BATCH, INPUTS]}, ["y", "last"], weights)
    directions = len(weights["weight"])
    shapes = [STEPS, directions, BATCH, HIDDEN], [directions, BATCH, HIDDEN]
    for value, shape in zip(model.graph.output, shapes, strict=True):
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, shape))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    config = ts.Config(measure=False, force={"*": "unstructured"})
    return path, ts.compile(path, config=config)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _step(operator, x, state, products, *, late, act):
    """Return the next state in float64, from ONNX's equations."""
    (hidden, cell), (own_input, own_hidden) = state, products
    x = own_input(x, slice(None))
    if operator == "RNN":
        return act(x + own_hidden(hidden, slice(None))), cell
    n, own = HIDDEN, [slice(i * HIDDEN, (i + 1) * HIDDEN) for i in range(4)]
    if operator == "LSTM":
        i, o, f, c = (x[:, gate] + own_hidden(hidden, gate) for gate in own)
        cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(c)
        return _sigmoid(o) * np.tanh(cell), cell
    z, r = (_sigmoid(x[:, gate] + own_hidden(hidden, gate)) for gate in own[:2])
    new = r * own_hidden(hidden, own[2]) if late else own_hidden(r * hidden, own[2])
    return (1 - z) * np.tanh(x[:, 2 * n :] + new) + z * hidden, cell


def _expected(operator, x, weights, reverse, *, late=False, acts=()):
    """Return every state (step, direction, batch, feature) in float64, and the last ones."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    rows, every = w["weight"].shape[1], []
    for d, backwards in enumerate(reverse):
        bias = w["bias"][d] if "bias" in w else np.zeros(2 * rows)

        def product(weight, bias):
            return lambda v, gate: v @ weight[gate].T + bias[gate]

        products = product(w["weight"][d], bias[:rows]), product(w["recurrence"][d], bias[rows:])
        zero = np.zeros((BATCH, HIDDEN))
        state, found = (w["hidden"][d] if "hidden" in w else zero, zero), {}
        for t in reversed(range(STEPS)) if backwards else range(STEPS):
            act = acts[d] if acts else np.tanh
            state = _step(operator, x[t], state, products, late=late, act=act)
            found[t] = state[0]
        every.append([found[t] for t in range(STEPS)])
    last = [rows[0] if backwards else rows[-1] for rows, backwards in zip(every, reverse)]
    return np.array(every).transpose(1, 0, 2, 3), np.array(last)


REVERSE = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
ACTIVATIONS = {"Relu": lambda x: np.maximum(x, 0), "Tanh": np.tanh}


@pytest.mark.grid
@pytest.mark.parametrize(
    ("operator", "direction", "given", "attributes"),
    [
        ("LSTM", "forward", "bias hidden", {}),
        ("GRU", "reverse", "bias", {}),
        pytest.param("GRU", "bidirectional", "hidden", {}, marks=pytest.mark.slow),
        ("GRU", "bidirectional", "bias hidden", {"linear_before_reset": 1}),
        ("RNN", "reverse", "hidden", {}),
        ("RNN", "bidirectional", "bias hidden", {"activations": ["Relu", "Tanh"]}),
    ],
)
def test_results_and_sparse_gates(tmp_path, operator, direction, given, attributes):
    rng, reverse = np.random.default_rng(0), REVERSE[direction]
    weights = _weights(rng, operator, len(reverse), *given.split())
    path, library = _compiled(tmp_path, operator, weights, direction=direction, **attributes)
    x = rng.standard_normal((STEPS, BATCH, INPUTS)).astype(np.float32)
    acts = [ACTIVATIONS[name] for name in attributes.get("activations", ())]
    late = bool(attributes.get("linear_before_reset"))
    wanted = _expected(operator, x.astype(np.float64), weights, reverse, late=late, acts=acts)
    for found, exact in zip(library(x), wanted, strict=True):
        np.testing.assert_allclose(found, exact, atol=3e-6)
    chosen = {record.layer: record.chosen for record in library.decisions.records}
    parts = ["[0:64]", "[64:96]"] if operator == "GRU" and not late else [""]
    wholes = ["[0:1]", "[1:2]"] if len(reverse) == 2 else [""]
    gates = {f"recurrence{whole}{part}" for whole in wholes for part in parts}
    assert chosen.keys() == {f"weight{whole}" for whole in wholes} | gates
    assert "dense" not in chosen.values()
    assert ts.inspect(path).rows[0].layer.partition("[")[0] == "weight"


def test_steps_behind_a_sequence_leave_the_state(tmp_path):
    rng = np.random.default_rng(0)
    weights = _weights(rng, "GRU", 1)
    x = rng.standard_normal((STEPS, BATCH, INPUTS)).astype(np.float32)
    every, _ = _expected("GRU", x.astype(np.float64), weights, [False], late=True)
    weights["lengths"] = np.array([1, 2], np.int32)
    _, library = _compiled(tmp_path, "GRU", weights, linear_before_reset=1)
    found, last = library(x)
    np.testing.assert_allclose(last[0], [every[0, 0, 0], every[1, 0, 1]], atol=3e-6)
    assert (found[1, 0, 0] == 0).all()
