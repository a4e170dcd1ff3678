import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.report.curves import HEIGHT, HIGHEST, WIDTH, curves
from tvm_sparse.report.html import render
from tvm_sparse.selection.decisions import Decisions


@pytest.fixture(scope="module")
def compiled():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    model.append(nn.Linear(64, 32))
    ts.prune.balanced(model, 0.75, ignore=["4"]).squash_mask()
    return ts.compile(model.eval(), (torch.rand(8, 64),), config=ts.Config(measure=False))


def test_layers_of_one_size_and_pattern_share_a_curve(compiled):
    (curve,) = curves(compiled.decisions, compiled.target)
    assert curve.layers == ("0", "2")
    assert curve.shape == (64, 64)
    assert curve.pattern == "balanced, banks of 16"
    assert curve.verdict.startswith("gains from ")
    assert curve.dots == ()


def test_measured_layers_are_dots(compiled):
    decisions = Decisions(list(compiled.decisions), studied=compiled.decisions.studied)
    for record, us in zip(decisions, (5.0, 100.0, None), strict=True):
        record.dense_us, record.sparse_us = 10.0, us
    (curve,) = curves(decisions, compiled.target)
    assert curve.dots == (
        (0.75 * WIDTH, pytest.approx(HEIGHT * (1 - 0.5 / HIGHEST))),
        (0.75 * WIDTH, 0),  # far above: at the edge
    )


def test_the_page_shows_them(compiled):
    page = render(compiled, compiled.kernels)
    assert "What more zeros would gain" in page
    assert page.count('<svg class="curve"') == 1
    assert "0 and 1 more" in page
