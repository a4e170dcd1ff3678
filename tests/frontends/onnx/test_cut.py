"""Parts of a graph: up to named values, with inputs that are fixed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import branching, detecting

CONFIG = ts.Config(measure=False, tuned=False)
WEIGHT = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)


@pytest.fixture
def detector(tmp_path):
    """A graph whose last operators are refused."""
    onnx.save(detecting(WEIGHT), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_the_refusal_names_where_to_cut(detector):
    with pytest.raises(ts.UnsupportedError, match=r"outputs=\['scores'\] \(--outputs scores\)"):
        ts.compile(detector)


def test_several_values_are_returned_in_the_order_asked_for(detector):
    library = ts.compile(detector, outputs=["scores", "boxes"], config=CONFIG)
    assert [spec.name for spec in library.outputs] == ["scores", "boxes"]
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    scores, boxes = library(x)
    features = x @ WEIGHT
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-features)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(boxes, np.maximum(features, 0), rtol=1e-5, atol=1e-6)
    assert set(ts.load(detector, outputs=["boxes"]).weights) == {"w"}
    assert [row.layer for row in ts.inspect(detector, outputs=["boxes"]).rows] == ["w"]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["score"], r"outputs: name 'score', which is no value of the graph; expected one like"),
        (["w"], r"name 'w', which is no value"),
        ("scores", r"outputs: are 'scores'; expected a list of names"),
        ([], r"outputs: are none"),
        (["boxes", "boxes"], r"outputs: name 'boxes' twice"),
    ],
)
def test_names_that_cannot_be(outputs, message, detector):
    with pytest.raises(ts.InputError, match=message):
        ts.load(detector, outputs=outputs)


def test_other_sources_have_no_names():
    import torch

    with pytest.raises(ts.InputError, match=r"outputs: are given for a model whose values have no"):
        ts.load(torch.nn.Linear(2, 2), (torch.ones(1, 2),), outputs=["y"])


@pytest.fixture
def branches(tmp_path):
    """A graph that multiplies by another weight for each rate."""
    onnx.save(branching(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_a_fixed_input_takes_its_branch(branches):
    library = ts.compile(branches, constants={"rate": 16000}, config=CONFIG)
    assert [spec.name for spec in library.inputs] == ["x"]
    np.testing.assert_array_equal(library(np.ones((1, 9), np.float32)), np.full((1, 4), 9))


def test_branches_of_which_one_does_not_fit_name_the_condition(branches):
    with pytest.raises(ts.UnsupportedError, match=r"condition 'same' .* 'low' cannot be .*--const"):
        ts.compile(branches)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"rat": 1}, r"constants: name 'rat', which is no input of the graph; .*'rate'"),
        ({"rate": 1.5}, r"constant 'rate': is 1.5; expected numbers of int64"),
        ({"rate": "high"}, r"constant 'rate': is 'high'; expected a number"),
        ({"rate": [1, 2]}, r"constant 'rate': has the shape \[2\]"),
        ({"x": np.ones((2, 9))}, r"constant 'x': has the shape \[2, 9\]"),
        ([1], r"constants: are a list; expected values by names"),
    ],
)
def test_constants_that_cannot_be(constants, message, branches):
    with pytest.raises(ts.InputError, match=message):
        ts.load(branches, constants=constants)
