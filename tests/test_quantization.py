"""``ts.quantize``: from a pruned module to a library of bytes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import tvm_sparse as ts
from tests.zoo import package


class Residual(nn.Module):
    """Convolutions with batch norm, a residual sum, pooling and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32)
        self.body, self.head = nn.Conv2d(32, 32, 3, padding=1), nn.Linear(32, 10)
        self.act = nn.ReLU()  # used twice

    def forward(self, x):
        x = self.act(self.norm(self.stem(x)))
        x = self.act(x + self.body(x))
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    made = Residual().eval()
    with torch.no_grad():
        made.norm.running_mean.normal_()
        made.norm.running_var.uniform_(0.5, 2)
    prune.l1_unstructured(made.body, "weight", 0.9)
    return made


@pytest.fixture(scope="module")
def batches():
    return [torch.randn(1, 3, 16, 16) for _ in range(3)]


def compiled(program):
    return ts.compile(program, config=ts.Config(measure=False, tuned=False))


def test_a_pruned_module_becomes_a_library_of_bytes(model, batches):
    program = ts.quantize(model, batches)
    library = compiled(program)
    x = batches[0]
    difference = library(x) - program.module()(x)
    assert difference.abs().max() < 1e-3
    scale = model(x).abs().max()
    assert (library(x) - model(x)).abs().max() < 0.05 * scale
    decisions = {d.layer: d for d in library.decisions}
    assert list(decisions) == ["stem", "body", "head"]
    assert decisions["body"].sparsity == pytest.approx(0.9, abs=0.02)
    assert decisions["body"].chosen != "dense"
    assert all("uint8" in k.function for k in library.kernels if k.layer)
    config = ts.Config(measure=False, tuned=False)
    assert library.nbytes < 0.7 * ts.compile(model, (x,), config=config).nbytes


def test_layers_can_stay_float(model, batches):
    library = compiled(ts.quantize(model, batches, ignore=["body"]))
    kernels = {k.layer: k.function for k in library.kernels if k.layer}
    assert "uint8" in kernels["stem"]
    assert "uint8" not in kernels["body"]


def test_what_cannot_be_quantised_is_refused(model):
    with pytest.raises(ts.InputError, match="no calibration data"):
        ts.quantize(model, [])
    with pytest.raises(ts.InputError, match="no module 'neck'"):
        ts.quantize(model, [torch.randn(1, 3, 16, 16)], ignore=["neck"])
    with pytest.raises(ts.InputError, match="cannot be traced"):
        ts.quantize(model, [torch.randn(1, 4, 16, 16)])


def test_a_model_of_hugging_face_goes_in_as_it_is():
    transformers = package("transformers")
    config = transformers.BertConfig(
        hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128
    )
    torch.manual_seed(0)
    model = transformers.BertModel(config).eval()
    batches = [
        {"input_ids": torch.randint(0, 100, (1, 8)), "attention_mask": torch.ones(1, 8).long()}
        for _ in range(2)
    ]
    library = compiled(ts.quantize(model, batches))
    found, wanted = library(**batches[0]), model(**batches[0])
    assert type(found) is type(wanted)
    scale = wanted.last_hidden_state.abs().max()
    assert (found.last_hidden_state - wanted.last_hidden_state).abs().max() < 0.05 * scale
    assert sum("uint8" in k.function for k in library.kernels if k.layer) >= 6


def test_batches_that_are_no_arguments_are_refused(model):
    with pytest.raises(ts.errors.InputError, match=r"of type int"):
        ts.quantize(model, [3])
