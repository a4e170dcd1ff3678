"""Threads share the lines of open planes: each finds in its own cache what it wrote before."""

from __future__ import annotations

import re

import pytest
import torch
import tvm
from torch import nn
from torch.export import Dim
from tvm.ir.instrument import pass_instrument

import tvm_sparse as ts

PLANES = ({2: Dim("h"), 3: Dim("w")},)


def integers(*shape):
    return torch.randint(-3, 4, shape).float()


def network():
    """Return an inverted residual block with weights of small integers, 4 of 16 kept."""
    layers = [
        nn.Conv2d(16, 96, 1),
        nn.Conv2d(96, 96, 3, padding=1, groups=96),
        nn.Conv2d(96, 16, 1),
    ]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2]).eval()
    model.requires_grad_(False)
    for layer in layers:
        layer.weight.copy_(integers(*layer.weight.shape))
        layer.bias.copy_(integers(*layer.bias.shape))
    ts.prune.balanced(model, 0.75).squash_mask()
    return model


@pytest.mark.parametrize("threads", ["1", "2", "3"])
def test_results_are_exact_with_any_number_of_threads(threads, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    torch.manual_seed(0)
    model = network()
    config = ts.Config(measure=False, tuned=False)
    library = ts.compile(model, (integers(1, 16, 40, 40),), dynamic_shapes=PLANES, config=config)
    for height, width in ((2, 3), (7, 15), (16, 16), (17, 8), (33, 41)):
        x = integers(1, 16, height, width)
        assert torch.equal(library(x), model(x))


def test_the_loop_that_threads_share_is_over_lines(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    seen = {}

    @pass_instrument
    class Scheduled:
        def run_after_pass(self, mod, info):
            if info.name == "WritePadding":
                seen.update({name.name_hint: func.script() for name, func in mod.functions_items()})

    config = ts.Config(measure=False, tuned=False)
    with tvm.transform.PassContext(instruments=[Scheduled()]):
        ts.compile(network(), (integers(1, 16, 40, 40),), dynamic_shapes=PLANES, config=config)
    layers = [text for name, text in seen.items() if "_dense" in name or "_balanced" in name]
    shared = [extent for text in layers for extent in re.findall(r"T\.parallel\((.*)\):", text)]
    assert len(shared) >= 3
    assert set(shared) == {"h"}
