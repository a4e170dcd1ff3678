"""What a model asserts of a tensor is checked in each call."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tvm_sparse as ts
from tvm_sparse_runtime import load
from tvm_sparse_runtime.errors import SparseRuntimeError

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


class Positive(nn.Module):
    def forward(self, x, mask):
        torch._check_tensor_all(mask > 0, lambda: "the mask has holes")
        return x.sort().values * 2


def test_that_all_elements_are_true():
    x, mask = torch.randn(3), torch.ones(4)
    config = ts.Config(cache=False, tuned=False)
    library = ts.compile(Positive(), (x, mask), config=config)  # also times a kernel of TVM
    torch.testing.assert_close(library(x, mask), Positive()(x, mask))
    mask[2] = -1
    with pytest.raises(SparseRuntimeError, match="expected what the model asserts"):
        library(x, mask)


class Chosen(nn.Module):
    """A convolution, beside tokens as rows of zeros and a one: ``one_hot`` asserts its bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(32, 32, 3, padding=1)

    def forward(self, x, tokens):
        return self.convolution(x), F.one_hot(tokens, 6)


@pytest.mark.grid
@pytest.mark.parametrize("batch", [None, {0: torch.export.Dim("batch", max=8)}])
def test_layers_beside_an_assertion_are_sparse(batch, tmp_path):
    model = Chosen().eval()
    ts.prune.balanced(model, 0.875).squash_mask()
    x, tokens = torch.randn(2, 32, 10, 10), torch.tensor([2, 5])
    shapes = None if batch is None else (batch, batch)
    library = ts.compile(model, (x, tokens), dynamic_shapes=shapes, config=CONFIG)
    (layer,) = library.decisions.to_json()
    assert layer["layer"] == "convolution" and layer["chosen"] != "dense"
    assert len(library.outputs) == 2
    loaded = load(library.export(tmp_path / "a.tvms"))
    for found in (library(x, tokens), loaded(x, tokens)):
        torch.testing.assert_close([torch.as_tensor(y) for y in found], list(model(x, tokens)))
    for run in (library, loaded):
        with pytest.raises(SparseRuntimeError, match="expected what the model asserts"):
            run(x, torch.tensor([2, 6]))
        torch.testing.assert_close(torch.as_tensor(run(x, tokens)[0]), model(x, tokens)[0])


def test_new_values_for_a_model_that_asserts(tmp_path):
    x, mask = torch.randn(3), torch.ones(4)
    library = ts.compile(Positive(), (x, mask), config=replace(CONFIG, refreshable=True))
    with pytest.raises(SparseRuntimeError, match="expected what the model asserts"):
        load(library.export(tmp_path / "a.tvms"))(x, -mask)
