"""Attention in blocks of an open length: padded to whole ones, each sees its neighbours."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import tvm_sparse as ts
from tests.modules import Apply
from tvm_sparse.frontends.load import load

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
BLOCK = 16


def in_blocks(x):
    """Return (batch, blocks, rows of one, heads, columns)."""
    if x.shape[1] % BLOCK:
        x = F.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % BLOCK))
    return x.reshape(x.shape[0], x.shape[1] // BLOCK, BLOCK, *x.shape[2:])


def with_neighbours(blocks):
    padded = F.pad(blocks, (0, 0, 0, 0, 0, 0, 1, 1))
    return torch.cat([padded[:, i : i + blocks.shape[1]] for i in range(3)], 2)


def local_attention(x):
    queries, keys = in_blocks(x), with_neighbours(in_blocks(x))
    scores = torch.einsum("...qhd,...khd->...hqk", queries, keys).softmax(-1)
    found = torch.einsum("...hqk,...khd->...qhd", scores, keys)
    return found.reshape(x.shape[0], -1, *x.shape[2:])[:, : x.shape[1]].contiguous()


@pytest.mark.parametrize(("most", "example"), [(BLOCK, 6), (100, 37)])
def test_local_attention(most, example):
    open_axes = {0: Dim("batch", min=1, max=8), 1: Dim("length", min=1, max=most)}
    model, x = Apply(local_attention), torch.randn(2, example, 4, 8)
    library = ts.compile(model, (x,), dynamic_shapes=(open_axes,), config=CONFIG)
    for length in (1, 15, 16, 17, 31, 32, 64, 99):
        if length <= most:
            x = torch.randn(1 + length % 3, length, 4, 8)
            torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


def test_the_only_block_of_a_short_length_is_closed():
    open_axes = {1: Dim("length", min=1, max=BLOCK)}
    source = load(Apply(local_attention), (torch.randn(2, 6, 4, 8),), dynamic_shapes=(open_axes,))
    assert "//" not in source.module["main"].script()
