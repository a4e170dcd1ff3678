"""The rule for Winograd convolutions: how long its strips are, and what runs on all threads."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.kernels import host
from tests.ops.test_winograd import layer
from tests.schedules.layers import assert_like_torch
from tvm_sparse.formats.winograd import WinogradFormat
from tvm_sparse.ops.contractions.winograd import winograd
from tvm_sparse.schedules.blocks import PARALLEL
from tvm_sparse.schedules.cpu.winograd import WinogradRule, strip_rows


@pytest.mark.parametrize(
    ("high", "wide", "rows"), [(28, 28, 2), (14, 14, 7), (7, 7, 7), (4, 4, 4), (112, 112, 1)]
)
def test_a_strip_has_enough_tiles_for_its_weights(high, wide, rows):
    assert strip_rows(high, wide) == rows


@pytest.mark.parametrize(
    ("extent", "threads", "loops"),
    [
        (56, "2", {"transform": 14, "store": 14}),  # strips
        (28, "2", {"transform": 2, "store": 2}),  # as many strips as threads
        (14, "2", {"transform": 49, "store": 4}),  # the tiles of one strip, then feature tiles
    ],
)
def test_what_runs_on_all_threads(monkeypatch, extent, threads, loops):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    func = winograd(layer(1, extent, extent, 128, 128), WinogradFormat(128, 128), host())
    schedule = WinogradRule().apply(func, host(), tunable=False)
    for block, extents in loops.items():
        around = [schedule.get(x) for x in schedule.get_loops(schedule.get_sblock(block))]
        assert [int(x.extent) for x in around if int(x.kind) == PARALLEL] == [extents]


class Block(nn.Module):
    """Two convolutions with batch norm, as residual networks have them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.second = nn.Conv2d(32, 16, 3, padding=1)

    def forward(self, x):
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


@pytest.mark.grid
@pytest.mark.parametrize("extents", [(8, 10), (7, 9)])
def test_epilogues_and_borders(extents):
    torch.manual_seed(0)
    library = assert_like_torch(Block().eval(), torch.randn(2, 16, *extents), "winograd")
    functions = [k.function for k in library.kernels if k.rule == "Winograd"]
    assert ["bordered" in function for function in functions] == [True, False]
