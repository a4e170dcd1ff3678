import pytest
import torch

from tvm_sparse.comparison.latency import race
from tvm_sparse.demo import alpha as alpha_module
from tvm_sparse.demo.alpha import MeasuredAlpha, _input_shapes, _pruned
from tvm_sparse.demo.separable import build_separable
from tvm_sparse.pruning import deprune
from tvm_sparse.pruning.deprune.diagonal import kept_vectors
from tvm_sparse.pruning.deprune.recalibration import Unaligned


def test_input_shapes_are_those_of_the_run_and_the_mode_stays():
    model = build_separable().train()
    shapes = _input_shapes(model, (torch.rand(3, 1, 8, 8),))
    assert model.training
    assert shapes["stem.0"] == (3, 1, 8, 8)
    assert shapes["blocks.2.depthwise.0"] == (3, 128, 8, 8)
    assert shapes["blocks.3.depthwise.0"] == (3, 192, 4, 4)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_pruned_layers_have_the_count_that_is_measured():
    model = build_separable()
    depthwise = _pruned(model.blocks[2].depthwise[0], 70)
    assert depthwise.stride == (2, 2)
    assert kept_vectors((depthwise.weight != 0).numpy()) == [70] * 4
    assert _pruned(model.blocks[0].project[0], 20).weight.shape == (20, 96, 1, 1)


def test_a_layer_is_compiled_and_measured_once(monkeypatch):
    raced = []

    def counted(programs):
        raced.append(sorted(programs))
        return race(programs)

    monkeypatch.setattr(alpha_module, "race", counted)
    alpha = MeasuredAlpha(build_separable(), (torch.rand(1, 1, 8, 8),))
    case = Unaligned("blocks.0.depthwise.0", (96, 1, 3, 3), 72, 288)
    assert 0.05 < alpha(case) < 20
    assert alpha(case) == alpha(case)
    assert raced == [["below", "kept"]]


@pytest.mark.slow
def test_measured_alpha_recalibrates():
    model = build_separable()
    alpha = MeasuredAlpha(model, (torch.rand(1, 1, 8, 8),))
    report = deprune(model, 0.75, 0, variant="DEPrune-BH", alpha=alpha).report
    assert all("HSR" in layer.note for layer in report.layers)
