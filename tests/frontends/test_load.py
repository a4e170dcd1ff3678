"""One entry for every source, and one clear error for what is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.frontends.networks import onnx_file, pair, sparse_network
from tvm_sparse.errors import InputError
from tvm_sparse.frontends import load

X = torch.ones(2, 8)


def test_every_source_gives_the_same_weights(tmp_path):
    module = pair().eval()
    program = torch.export.export(module, (X,))
    torch.export.save(program, tmp_path / "m.pt2")
    save_file(module.state_dict(), tmp_path / "w.safetensors")
    factory = "tests.frontends.networks:pair"
    models = [
        load(module, X),
        load(module, (X,)),
        load(program),
        load(tmp_path / "m.pt2"),
        load(str(tmp_path / "m.pt2")),
        load(factory, X, weights=tmp_path / "w.safetensors"),
    ]
    for model in models:
        assert list(model.weights) == ["0.weight", "0.bias", "2.weight", "2.bias"]
        assert np.array_equal(model.weights["2.weight"], module[2].weight.detach())
        assert model.inputs[0].shape == (2, 8)


def test_onnx_by_its_suffix(tmp_path):
    path = onnx_file(tmp_path / "net.onnx", sparse_network()[0])
    assert "5.weight" in load(path).weights


def test_dynamic_batch_of_a_module_only():
    assert load(pair(), X, dynamic_batch=True).inputs[0].shape == ("batch", 8)
    program = torch.export.export(pair(), (X,))
    with pytest.raises(InputError, match="exported already"):
        load(program, dynamic_batch=True)


def test_examples_are_needed_for_a_module():
    with pytest.raises(InputError, match="model 'Sequential': comes without example inputs"):
        load(pair())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("m.pt", "is a pickle"),
        ("m.pth", "is a pickle"),
        ("m.safetensors", "holds weights only"),
        ("m.txt", "is no model file"),
        ("m.pt2", "no such file"),
    ],
)
def test_files_that_are_no_models(tmp_path, name, reason):
    with pytest.raises(InputError, match=reason):
        load(tmp_path / name)


def test_things_that_are_no_models():
    with pytest.raises(InputError, match="model: is a int"):
        load(3)
    with pytest.raises(InputError, match="come without a factory"):
        load(pair(), X, weights="w.safetensors")
