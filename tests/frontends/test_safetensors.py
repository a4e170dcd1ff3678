"""A factory's module filled from a safetensors file."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn.utils import prune

from tests.frontends.networks import pair, tied
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.checkpoint import Checkpoint
from tvm_sparse.frontends.files.safetensors import load_factory

FACTORY = "tests.frontends.networks:pair"


def test_the_factorys_module_gets_the_weights(tmp_path):
    values = pair().state_dict()
    save_file(values, tmp_path / "w.safetensors")
    module = load_factory(FACTORY, tmp_path / "w.safetensors")
    assert all(torch.equal(value, values[name]) for name, value in module.state_dict().items())
    assert isinstance(load_factory(FACTORY), torch.nn.Sequential)


def test_an_attached_mask_in_the_file_is_applied(tmp_path):
    module = pair()
    prune.l1_unstructured(module[0], "weight", 0.75)
    save_file(module.state_dict(), tmp_path / "w.safetensors")
    filled = load_factory(FACTORY, tmp_path / "w.safetensors")
    assert torch.equal(filled[0].weight, module[0].weight)
    file = Checkpoint(tmp_path / "w.safetensors")
    assert (file.storage("0.weight"), file.storage("2.weight")) == ("masked", "dense")
    assert file.shape("0.weight") == (16, 8) and file.is_floating("0.weight")
    assert np.mean(file.tensor("0.weight").numpy() == 0) == 0.75


def test_weights_in_half_precision_fit_a_float_module(tmp_path):
    values = {name: value.half() for name, value in pair().state_dict().items()}
    save_file(values, tmp_path / "w.safetensors")
    module = load_factory(FACTORY, tmp_path / "w.safetensors")
    assert module[0].weight.dtype == torch.float32
    assert torch.equal(module[0].weight, values["0.weight"].float())


def test_one_name_of_a_shared_weight_is_enough(tmp_path):
    values = tied().state_dict()
    del values["b.weight"]
    save_file(values, tmp_path / "w.safetensors")
    module = load_factory("tests.frontends.networks:tied", tmp_path / "w.safetensors")
    assert torch.equal(module["b"].weight, values["a.weight"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda v: v.pop("2.weight"), r"lacks '2.weight'"),
        (lambda v: v.update(extra=torch.ones(1)), r"has unexpected 'extra'"),
        (
            lambda v: v.update({"0.weight": torch.ones(4, 4)}),
            r"'0.weight': is float32\[4, 4\]; expected float32\[16, 8\]",
        ),
        (
            lambda v: v.update({"0.bias": torch.ones(16, dtype=torch.int32)}),
            r"'0.bias': is int32\[16\]",
        ),
        (
            lambda v: v.update({f"k{i}": torch.ones(1) for i in range(9)}),
            r"'k4' and 4 more",
        ),
    ],
)
def test_names_and_shapes_must_fit(tmp_path, change, reason):
    values = dict(pair().state_dict())
    change(values)
    save_file(values, tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=reason):
        load_factory(FACTORY, tmp_path / "w.safetensors")


def test_damaged_files(tmp_path):
    path = tmp_path / "w.safetensors"
    with pytest.raises(InputError, match="no such file"):
        Checkpoint(path)
    save_file(pair().state_dict(), path)
    for content in (b"", b"nothing of the sort", path.read_bytes()[:100]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="is no sound safetensors file"):
            Checkpoint(path)


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("no_such_package:model", "No module named"),
        ("tests.frontends.networks:missing", "no attribute 'missing'"),
        (":pair", "[Ee]mpty module name"),
        ("tests.frontends.networks:broken", "fails with RuntimeError: no such configuration"),
        ("tests.frontends.networks:nothing", "returns a NoneType; expected a torch.nn.Module"),
    ],
)
def test_factories_that_do_not_work(factory, reason):
    with pytest.raises(InputError, match=reason):
        load_factory(factory)


def test_a_factory_in_the_working_directory_is_found(tmp_path, monkeypatch):
    (tmp_path / "own_model.py").write_text(
        "from torch import nn\n\ndef net():\n    return nn.Linear(2, 3)\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    try:
        assert load_factory("own_model:net").out_features == 3
    finally:
        sys.modules.pop("own_model", None)
    assert sys.path == path
