"""Whole layers that PyTorch's transformers call in inference are compiled, torch.compile or not."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import tvm_sparse as ts

OPTIONS = {"measure": False, "artifacts": False, "tuned": False}
X = torch.randn(2, 8, 32)
PADDED = torch.tensor([[False] * 8, [False] * 5 + [True] * 3])
LATER = torch.triu(torch.ones(8, 8, dtype=torch.bool), 1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x, **options):
        return self.attention(x, x, x, **options)


def layer(**options):
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **options)


def encoder():
    return nn.TransformerEncoder(layer(), 2)


CASES = {
    "layer": (layer, {}),
    "norm first": (lambda: layer(norm_first=True, activation="gelu"), {}),
    "padded": (layer, {"src_key_padding_mask": PADDED}),
    "causal": (layer, {"src_mask": nn.Transformer.generate_square_subsequent_mask(8)}),
    "both masks": (layer, {"src_mask": LATER, "src_key_padding_mask": PADDED}),
    "encoder": (encoder, {"src_key_padding_mask": PADDED}),
    "attention": (Attention, {}),
    "attention masked": (Attention, {"attn_mask": LATER, "average_attn_weights": False}),
    "attention padded": (Attention, {"key_padding_mask": PADDED, "need_weights": False}),
}


@pytest.mark.grid
@pytest.mark.parametrize("name", CASES)
def test_torch_compile_gives_what_pytorch_gives(name):
    make, options = CASES[name]
    torch.manual_seed(0)
    model = make().eval()
    torch._dynamo.reset()
    fast = torch.compile(model, backend="tvm_sparse", options=OPTIONS)
    plain = torch.compile(model, backend="eager")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = fast(X, **options), plain(X, **options)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    told = ts.partitions(fast)
    assert told.parts and not any(graph.eager or graph.refused for graph in told.graphs)
