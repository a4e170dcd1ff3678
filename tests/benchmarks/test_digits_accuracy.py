import pytest
import torch

from benchmarks.papers import digits_accuracy
from tvm_sparse.demo.separable import build_separable
from tvm_sparse.pruning import prune


def test_channel_share_zeroes_the_wanted_part_of_a_weight():
    share = digits_accuracy.channel_share(0.75)
    assert share == 0.5
    assert 1 - (1 - share) ** 2 == 0.75


def test_summary_and_page():
    rows = [
        {
            "network": network,
            "seed": seed,
            "method": "m",
            "level": level,
            "sparsity": level,
            "accuracy": 0.9 + 0.02 * seed,
            "dense": 0.95,
        }
        for network in (digits_accuracy.VGG, digits_accuracy.SEPARABLE)
        for seed in (0, 1)
        for level in digits_accuracy.LEVELS
    ]
    found = digits_accuracy.summary(rows)
    assert len(found) == 8
    assert found[0]["mean"] == pytest.approx(0.91)
    assert (found[0]["lowest"], found[0]["highest"]) == (0.9, 0.92)
    assert digits_accuracy.markdown({"summary": found}).count("| m | 91.0 (90.0-92.0) |") == 2


def test_the_channel_baseline_prunes_what_depthwise_layers_see():
    model = build_separable()
    method = digits_accuracy.SEPARABLE_METHODS["channels of DW"](0.5)
    report = prune(
        model, method, include=digits_accuracy.INCLUDE["channels of DW"], ignore=("stem.*",)
    ).report
    assert report["blocks.0.depthwise.0"].sparsity == 0.5
    assert report["blocks.0.expand.0"].sparsity == 0.5
    assert "stem.0" in report.skipped
    assert torch.isfinite(model(torch.rand(1, 1, 8, 8))).all()
