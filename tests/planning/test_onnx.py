"""A plan of an ONNX file is the plan of its module."""

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.exported import exported
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.errors import InputError


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32)).eval()


@pytest.fixture
def file(model, tmp_path):
    path = tmp_path / "model.onnx"
    axes = {"dynamic_axes": {"x": {0: "n"}}}
    exported(model, torch.zeros(2, 64), path, old=True, **axes)
    return path


@pytest.fixture
def calibration():
    return [np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)]


OPTIONS = {"bytes": 12000, "levels": [0.5, 0.75], "trials": 3}
MODELLED = {"config": ts.Config(cache=False, measure=False)}


def test_a_file_and_its_module_get_the_same_plan(model, file, calibration, tmp_path):
    x = np.zeros((1, 64), np.float32)
    found = ts.plan(str(file), calibration, example_inputs=x, **OPTIONS, **MODELLED)
    tensors = [torch.from_numpy(batch) for batch in calibration]
    wanted = ts.plan(model, tensors, example_inputs=torch.zeros(1, 64), **OPTIONS, **MODELLED)
    assert found.tables.layers == wanted.tables.layers == ("0.weight", "2.weight")
    (own,), (other,) = found.tables.costs.values(), wanted.tables.costs.values()
    np.testing.assert_allclose(own.us, other.us)
    np.testing.assert_allclose(own.nbytes, other.nbytes)
    np.testing.assert_allclose(found.tables.losses, wanted.tables.losses, rtol=1e-3)
    assert found.choice == wanted.choice
    pruned = tmp_path / "pruned.onnx"
    ts.prune.onnx(file, found.method, calibration=calibration, output=pruned)
    library = ts.compile(pruned, torch.zeros(1, 64))
    assert library.nbytes <= 12000


def test_times_of_a_file_are_measured_in_floats_and_in_bytes(file, calibration):
    plan = ts.plan(
        onnx.load(str(file)),
        calibration,
        max_drop=0.9,
        example_inputs=calibration[0][:1],
        levels=[0.75],
        trials=0,
        numerics=("float32", "int8", "int8-dynamic"),
        config=ts.Config(cache=False),
    )
    assert list(plan.tables.costs) == ["float32", "int8", "int8-dynamic"]
    for name, costs in plan.tables.costs.items():
        assert costs.source == "measured" and (costs.us[:, 0] > 0).all()
        assert (costs.drop > 0) == (name != "float32") and costs.drop < 0.05


def test_batches_that_a_file_does_not_take_are_refused(file, calibration):
    with pytest.raises(InputError, match="has no input 'y'"):
        ts.plan(str(file), [{"y": calibration[0]}], **OPTIONS)
    with pytest.raises(InputError, match="float64"):
        ts.plan(str(file), calibration, example_inputs=np.zeros((1, 64)), **OPTIONS)


def test_both_directions_of_a_recurrent_layer_have_their_times(tmp_path):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(32, 48, bidirectional=True)

        def forward(self, x):
            return self.lstm(x)[0]

    torch.manual_seed(0)
    model, x = Both().eval(), torch.randn(4, 1, 32)
    path = exported(model, x, tmp_path / "both.onnx", old=True)
    found = ts.plan(str(path), [x.numpy()], **{**OPTIONS, "bytes": 60000}, **MODELLED)
    wanted = ts.plan(model, [x], **{**OPTIONS, "bytes": 60000}, **MODELLED)
    (own,), (other,) = found.tables.costs.values(), wanted.tables.costs.values()
    assert len(found.tables.layers) == len(wanted.tables.layers) == 4
    assert (own.us > 0).all()
    np.testing.assert_allclose(sorted(own.us.sum(1)), sorted(other.us.sum(1)))
    np.testing.assert_allclose(sorted(own.nbytes.sum(1)), sorted(other.nbytes.sum(1)))


def test_an_input_may_be_a_number(tmp_path):
    rng = np.random.default_rng(0)
    batch = {"x": rng.standard_normal((4, 64)).astype(np.float32), "scale": np.float32(2)}
    weight = rng.standard_normal((64, 32)).astype(np.float32)
    nodes = [node("MatMul", "x w", "h"), node("Mul", "h scale", "y")]
    inputs = {name: value.shape for name, value in batch.items()}
    onnx.save(graph(nodes, inputs, ["y"], {"w": weight}), tmp_path / "scaled.onnx")
    options = {**OPTIONS, "bytes": 5000}
    plan = ts.plan(str(tmp_path / "scaled.onnx"), [batch], **options, **MODELLED)
    assert len(plan.tables.layers) == 1
