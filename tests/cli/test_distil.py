import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import load_file, save_file

from tests.exported import exported
from tvm_sparse.cli.calibration import in_pieces


@pytest.fixture
def inputs(here):
    x = np.random.default_rng(0).standard_normal((100, 64)).astype(np.float32)
    np.save("x.npy", x)
    return x


def weights_of(path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


@pytest.mark.parametrize("open_batch", [False, True])
def test_a_file_learns_and_keeps_its_zeros(call, call_json, here, small, inputs, open_batch):
    axes = {"dynamic_axes": {"x": {0: "batch"}}} if open_batch else {}
    exported(small, torch.rand(4, 64), here / "dense.onnx", old=True, **axes)
    call("prune", "dense.onnx", "-o", "pruned.onnx", "--sparsity", 0.75)
    base = ["distil", "pruned.onnx", "--teacher", "dense.onnx", "--calibration", "x.npy"]
    printed = call_json(*base, "-o", "trained.onnx", "--steps", 40, "--rate", 0.003)
    assert printed["steps"] == 40
    assert printed["loss"][1] < 0.7 * printed["loss"][0]
    assert 0.7 < printed["zeros"] < 0.8
    before, after = weights_of("pruned.onnx"), weights_of("trained.onnx")
    for name, weight in before.items():
        assert not np.array_equal(weight, after[name])
        if weight.ndim > 1:
            assert (after[name][weight == 0] == 0).all()
    call(*base, "-o", "trained.onnx", status=1)
    call(*base, "-o", "trained.safetensors", status=2)
    call(*base[:2], "--teacher", "dense.safetensors", *base[4:], "-o", "t.onnx", status=2)


def test_a_module_learns_from_its_dense_weights(call, here, inputs):
    from factories import small as factory

    save_file(factory().state_dict(), "dense.safetensors")
    call("prune", "factories:small", "-o", "p.safetensors", "--sparsity", 0.75)
    base = ["distil", "factories:small", "--weights", "p.safetensors"]
    base += ["--teacher", "dense.safetensors", "--calibration", "x.npy", "--steps", 40]
    printed = call(*base, "-o", "t.safetensors", "--rate", 0.003).stdout
    assert printed.startswith("40 steps, loss ")
    assert "75.0 % zeros in its layers\nwrote t.safetensors\n" in printed
    model, x = factory(), torch.from_numpy(inputs)
    with torch.no_grad():
        wanted, errors = model(x), []
        for name in ("p", "t"):
            model.load_state_dict(load_file(f"{name}.safetensors"))
            errors.append(float((model(x) - wanted).norm()))
    assert errors[1] < 0.8 * errors[0]
    call("distil", "factories:small", *base[4:], "-o", "u.safetensors", status=2)


def test_inputs_are_cut_into_steps():
    x, y = np.arange(10)[:, None], np.arange(10)
    pieces = in_pieces([{"x": x, "y": y}], 4)
    assert [len(piece["x"]) for piece in pieces] == [4, 3, 3]
    assert sorted(np.concatenate([piece["y"] for piece in pieces])) == [*range(10)]
    for piece in pieces:
        assert np.array_equal(piece["x"][:, 0], piece["y"])
    rate = {"x": x, "rate": np.array(16000)}
    assert in_pieces([rate, x[:3]], 4)[0] is rate
    assert len(in_pieces([x, x[:3]], 4)) == 4
