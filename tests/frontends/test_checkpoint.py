"""Checkpoints of one file and of shards, as other tools write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import tvm_sparse as ts
from tests import zoo
from tests.frontends.networks import pair
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.checkpoint import Checkpoint, is_checkpoint
from tvm_sparse.frontends.files.safetensors import fill

FILES = Path(__file__).resolve().parent / "checkpoints"


@pytest.mark.parametrize("name", ["bitmask", "bitmask_24"])
def test_bitmasks_of_compressed_tensors(name):
    checkpoint = Checkpoint(FILES / f"{name}.safetensors")
    expected = load_file(FILES / f"{name}_dense.safetensors")
    assert sorted(checkpoint.names) == sorted(expected)
    for weight, value in expected.items():
        assert torch.equal(checkpoint.tensor(weight), value)
        assert checkpoint.shape(weight) == tuple(value.shape)
        assert checkpoint.is_floating(weight)
        assert checkpoint.storage(weight) == ("bitmask" if "weight" in weight else "dense")


def test_inspect_sees_what_bitmasks_mean():
    (row,) = ts.inspect(FILES / "bitmask_24.safetensors").rows
    assert (row.layer, row.shape, row.storage, row.sparsity) == ("fc", (8, 16), "bitmask", 0.5)
    assert row.pattern == "balanced 2 of 4"


def shards(folder: Path) -> Path:
    torch.manual_seed(0)
    values = pair().state_dict()
    parts = {"model-1.safetensors": ["0.weight", "0.bias"], "model-2.safetensors": [*values][2:]}
    for file, names in parts.items():
        save_file({name: values[name] for name in names}, folder / file)
    held = {name: file for file, names in parts.items() for name in names}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": held}))
    return index


def test_shards_by_their_index_and_by_their_folder(tmp_path):
    index = shards(tmp_path)
    torch.manual_seed(0)
    expected = pair().state_dict()
    for source in (index, tmp_path, str(tmp_path)):
        assert is_checkpoint(source)
        module = pair()
        fill(module, source)
        assert all(
            torch.equal(module.state_dict()[name], value) for name, value in expected.items()
        )
    assert [row.weight for row in ts.inspect(tmp_path).rows] == ["0.weight", "2.weight"]


def test_shards_that_transformers_writes(tmp_path):
    options = {"vocab_size": 64, "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32}
    model = zoo.transformers_model("DistilBertModel", "DistilBertConfig", **options)
    model.save_pretrained(tmp_path, max_shard_size="8KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    other = zoo.transformers_model("DistilBertModel", "DistilBertConfig", seed=1, **options)
    fill(other, tmp_path)
    assert all(torch.equal(other.state_dict()[n], w) for n, w in model.state_dict().items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index.write_text("[]"), "is no index"),
        (lambda index: index.write_text("{"), "is no index"),
        (lambda index: index.write_text('{"weight_map": {"a": "../a.safetensors"}}'), "elsewhere"),
        (lambda index: index.write_text('{"weight_map": {"a": 1}}'), "elsewhere"),
        (
            lambda index: index.write_text('{"weight_map": {"a": "model-1.safetensors"}}'),
            "'a' is not in the shard",
        ),
        (lambda index: (index.parent / "model-1.safetensors").unlink(), "no such file"),
        (lambda index: index.unlink(), "has model-1.safetensors, model-2.safetensors"),
    ],
)
def test_damaged_indices(tmp_path, change, message):
    change(shards(tmp_path))
    with pytest.raises(InputError, match=message):
        Checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("compressed", torch.ones(2), "has 2 values for"),
        ("bitmask", torch.zeros(4, 2, dtype=torch.uint8), "has a bitmask"),
        ("shape", torch.tensor([8, 24]), "has a bitmask"),
    ],
)
def test_damaged_bitmasks(tmp_path, part, value, message):
    stored = load_file(FILES / "bitmask_24.safetensors") | {f"fc.{part}": value}
    save_file(stored, tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=message):
        Checkpoint(tmp_path / "w.safetensors").tensor("fc.weight")


def test_what_is_no_checkpoint(tmp_path):
    assert not is_checkpoint("model.onnx") and not is_checkpoint(nn.Linear(1, 1))
    with pytest.raises(InputError, match="has no safetensors"):
        ts.inspect(tmp_path)
