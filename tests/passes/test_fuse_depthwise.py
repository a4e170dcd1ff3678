"""Depthwise and 1x1 convolutions in one kernel: when, what is recorded, and what the graph is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from tvm import relax

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.zoo import torchvision_model
from tvm_sparse.base.targets import parse_target
from tvm_sparse.frontends.load import load
from tvm_sparse.passes import pipeline
from tvm_sparse.passes.graph.rewrite import op_name
from tvm_sparse.pruning import deprune
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions


class Block(nn.Module):
    """A depthwise-separable block; a gate stands for squeeze-excite."""

    def __init__(self, gate: bool = False, channels: int = 64) -> None:
        super().__init__()
        wide = nn.Conv2d(16, channels, 1)
        taps = nn.Conv2d(channels, channels, 3, 1, 1, groups=channels, bias=False)
        self.front = nn.Sequential(wide, nn.ReLU6(), taps, nn.BatchNorm2d(channels), nn.ReLU6())
        self.back = nn.Conv2d(channels, 24, 1)
        self.gate = gate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.front(x)
        return self.back(y * y.mean((2, 3), keepdim=True) if self.gate else y)


def lowered(model, x, target="cuda:sm_90", config=None):
    """Return the module after lowering, and the decisions."""
    program = load(model.eval(), (x,))
    chooser = Chooser(
        parse_target(target).target,
        config or ts.Config(measure=False),
        Decisions(),
    )
    passes = [*pipeline.canonicalise(program.weights, 1), *pipeline.lower(chooser)]
    mod = program.module
    with chooser.target:
        for step in passes:
            mod = step(mod)
    return mod, list(chooser.decisions)


def functions(mod):
    return [name.name_hint for name, _ in mod.functions_items()]


LARGE = torch.zeros(32, 16, 28, 28)


def test_a_pair_becomes_one_function():
    mod, decisions = lowered(Block(), LARGE)
    assert sum("depthwise_pointwise" in name for name in functions(mod)) == 1
    assert [d.layer for d in decisions] == ["front.0", "front.2", "back"]
    saved = 2 * LARGE.shape[0] * 28 * 28 * 64 * 4 / 1e6
    for layer, other in ((1, "back"), (2, "front.2")):
        reason = decisions[layer].reason
        assert reason.startswith(f"fused depthwise + pointwise, with {other}: saves {saved:.2f} MB")
        assert "not measured" in reason


def test_where_two_kernels_are_modelled_faster_the_reason_says_so():
    mod, decisions = lowered(Block(channels=960), torch.zeros(1, 16, 7, 7))
    assert not any("pointwise" in name for name in functions(mod))
    assert "in two kernels" in decisions[2].reason


def test_a_gate_keeps_them_apart():
    mod, decisions = lowered(Block(gate=True), LARGE)
    assert not any("pointwise" in name for name in functions(mod))
    assert "squeeze-excite gate" in decisions[2].reason


def test_what_is_forced_stays_apart():
    model = Block()
    with torch.no_grad():
        model.back.weight *= torch.rand(24, 64, 1, 1) < 0.3
    config = ts.Config(measure=False, force={"back": "balanced"})
    mod, decisions = lowered(model, LARGE, config=config)
    assert not any("pointwise" in name for name in functions(mod))
    assert decisions[2].chosen == "balanced"
    assert "back is forced to be balanced" in decisions[2].reason


def test_weights_that_are_not_finite_are_refused():
    model = Block()
    with torch.no_grad():
        model.back.weight[0, 0] = np.nan
    with pytest.raises(RuntimeError, match=r"back.*weight\[0, 0, 0, 0\] is nan"):
        lowered(model, LARGE)


def test_cpus_keep_two_functions():
    mod, _ = lowered(Block(), LARGE, "cpu", ts.Config(measure=False, tuned=False))
    assert not any("pointwise" in name for name in functions(mod))


@pytest.fixture(scope="module")
def mobilenet():
    """MobileNet-V2 with taps and filters removed, half precision, and an input."""
    model = torchvision_model("mobilenet_v2", num_classes=10)
    pruner = deprune(model, 0.7, 0.3, variant="DEPrune-B")
    pruner.step()
    pruner.squash_mask()
    return model.half(), torch.zeros(32, 3, 64, 64).half()


def test_a_depruned_mobilenet_has_fused_blocks(mobilenet):
    mod, decisions = lowered(*mobilenet)
    called = []

    def look(expr):
        if op_name(expr) == "call_tir":
            called.append(expr.args[0].name_hint)

    relax.analysis.post_order_visit(mod["main"].body, look)
    fused = [name for name in called if "depthwise_pointwise" in name]
    together = [d.layer for d in decisions if "fused depthwise +" in d.reason]
    apart = [d.layer for d in decisions if "not fused" in d.reason]
    assert len(fused) >= 2  # of planes of 64 x 64 pixels and less, small ones lose
    assert len(together) == 2 * len(fused)
    assert len(fused) + len(apart) == len([n for n in called if "depthwise" in n]) == 17
    # Stem, 16 expansions and the head, and the projections that are kernels of their own.
    assert len([name for name in called if "conv2d" in name]) == 18 + len(apart)
    assert len(decisions) == 53


@needs_nvrtc
@pytest.mark.slow
def test_a_depruned_mobilenet_compiles(mobilenet):
    model, x = mobilenet
    library = ts.compile(model, (x,), target="cuda:sm_90")
    rules = {k.rule for k in library.kernels if "depthwise_pointwise" in k.function}
    assert rules == {"Separable"}
