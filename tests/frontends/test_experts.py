"""Mixtures of experts: products of grouped rows as PyTorch and transformers write them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tvm_sparse as ts
from tests.zoo import transformers_model
from tvm_sparse.errors import UnsupportedError

CONFIG = ts.Config(measure=False, cache=False)


class Experts(nn.Module):
    """Rows that are sorted by expert, of which ``ends`` says where each one's end."""

    def __init__(self, experts: int, inputs: int, outputs: int) -> None:
        super().__init__()
        weight = torch.randn(experts, outputs, inputs, dtype=torch.bfloat16)
        self.weight = nn.Parameter(weight)

    def forward(self, x, ends):
        return F.grouped_mm(x, self.weight.transpose(-2, -1), offs=ends)


def test_grouped_mm():
    module = Experts(3, 32, 80)
    x = torch.randn(7, 32, dtype=torch.bfloat16)
    ends = torch.tensor([2, 2, 7], dtype=torch.int32)
    library = ts.compile(module, (x, ends), config=CONFIG)
    torch.testing.assert_close(library(x, ends), module(x, ends))
    names = [kernel.function for kernel in library.kernels]
    assert len(names) == 1, "the weights are brought into tiles when the library is made"
    assert library.kernels[0].contraction


def test_any_number_of_rows():
    module, x = Experts(2, 16, 24), torch.randn(6, 16, dtype=torch.bfloat16)
    ends = torch.tensor([1, 6], dtype=torch.int32)
    rows = {"x": {0: torch.export.Dim("rows", min=2, max=64)}, "ends": None}
    library = ts.compile(module, (x, ends), dynamic_shapes=rows, config=CONFIG)
    for count in (3, 6, 40):
        x = torch.randn(count, 16, dtype=torch.bfloat16)
        ends[-1] = count
        torch.testing.assert_close(library(x, ends), module(x, ends))


def test_another_form_is_refused():
    x, y = (torch.randn(2, 16, 16, dtype=torch.bfloat16) for _ in range(2))

    class Batched(nn.Module):
        def forward(self, x, y):
            return F.grouped_mm(x, y)

    with pytest.raises(UnsupportedError, match="grouped_mm"):
        ts.compile(Batched(), (x, y), config=CONFIG)


@pytest.mark.parametrize("name", ["Mixtral", pytest.param("Qwen3Moe", marks=pytest.mark.slow)])
def test_networks_of_experts(name):
    sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 48}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    experts = {"num_experts_per_tok": 2, "moe_intermediate_size": 40, "use_cache": False}
    number = {"num_local_experts": 4} if name == "Mixtral" else {"num_experts": 4}
    model = transformers_model(
        f"{name}Model", f"{name}Config", **sizes, **heads, **experts, **number
    )
    ids = {"input_ids": torch.randint(0, 50, (1, 9))}
    library = ts.compile(model, kwargs=ids, config=CONFIG)
    with torch.no_grad():
        torch.testing.assert_close(library(**ids)[0], model(**ids)[0], atol=1e-5, rtol=1e-4)
    layers = {kernel.layer for kernel in library.kernels if kernel.contraction}
    assert "layers.0.mlp.experts" in layers
