"""The report shows every decision and kernel, escapes names, and needs nothing from outside."""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.report.html import render, write
from tvm_sparse.schedules.kernel import Kernel
from tvm_sparse.selection.decisions import Decisions, History


@pytest.fixture(scope="module")
def compiled():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten())
    model.append(nn.Linear(16 * 36, 8))
    model[3].weight.data[:, ::2] = 0
    x = torch.randn(1, 16, 6, 6)
    library = ts.compile(model.eval(), (x,), config=ts.Config(measure=False))
    return library, library.profile(x, repeat=2)


def test_every_record_is_shown(compiled):
    library, kernels = compiled
    page = render(library, kernels)
    for decision in library.decisions:
        assert f"<td>{decision.layer}</td>" in page
    assert page.count('class="bar"') == len(kernels)
    assert "Left to general rules" in page and "pad" in page


def test_bars_end_at_the_total(compiled):
    library, kernels = compiled
    last = re.findall(r"left:([\d.]+)%;width:([\d.]+)%", render(library, kernels))[-1]
    assert float(last[0]) + float(last[1]) == pytest.approx(100, abs=0.01)


def test_self_contained_and_escaped(compiled):
    library, _ = compiled
    page = render(library, library.kernels, title="<script>alert(1)</script>")
    assert page.count("<script") == 1
    assert "<script>alert" not in page
    assert not re.search(r'(src|href)="(?!data:)', page)


def test_written_with_times_of_this_machine(compiled, tmp_path):
    write(compiled[0], tmp_path / "small.html")
    page = (tmp_path / "small.html").read_text(encoding="utf-8")
    assert "Report of small" in page
    assert not re.search(r'class="n">0\.0</td><td><div', page), "a kernel without a time"


def test_kernels_that_only_convert_are_listed_with_their_times(compiled):
    library, kernels = compiled
    assert "Between floats and bytes" not in render(library, kernels)
    rounds = replace(kernels[0], function="quantize_rows", us=sum(k.us for k in kernels))
    page = render(library, [*kernels, rounds])
    assert "Between floats and bytes" in page and "50.0 % of the time" in page


def test_leftovers_are_what_general_rules_took(compiled):
    """Not what records or rules of GPUs scheduled: those are made for one sort of operator."""
    library, _ = compiled
    rules = ("Tuned", "Shipped", "Winograd", "Stream", "Generic", "Stock", None)
    kernels = [Kernel(f"kernel{i}", "", rule, 1.0) for i, rule in enumerate(rules)]
    _, listed = render(library, kernels).split("Left to general rules", 1)
    assert [f"kernel{i}" in listed for i in range(len(rules))] == [False] * 4 + [True] * 3


def test_masks_have_the_grid_of_their_pattern(compiled):
    library, kernels = compiled
    page = render(library, kernels)
    assert page.count('<div class="mask">') == len(library.decisions.masks) == 1
    assert 'alt="mask of 3: ' in page
    picture = library.decisions.masks["3"]
    assert picture.mask.shape == (8, 96)
    assert not picture.mask[:, ::2].any()


def test_measured_layers_stand_beside_dense(compiled):
    library, kernels = compiled
    times = {"dense_us": 12.5, "sparse_us": 5.0}
    records = [replace(d, chosen="balanced", **times) for d in library.decisions.records]
    records[0] = replace(records[0], chosen="winograd")
    other = copy.copy(library)
    other.decisions = Decisions(records)
    page = render(other, kernels)
    assert page.count("2.50x") == len(records) - 1
    assert f"{len(records) - 1} of {len(records)} layers sparse, 2.5x the speed" in page
    assert 'style="width:100.00%"' in page and 'style="width:40.00%"' in page


def test_searches_for_schedules_are_drawn(compiled):
    library, kernels = copy.copy(compiled[0]), compiled[1]
    assert "learning curve" not in render(library, kernels)
    library.decisions = copy.copy(library.decisions)
    library.decisions.histories = [History("f", ("3",), "tuned", 10.0, (10.0, 8.0))]
    page = render(library, kernels)
    assert "learning curve of f" in page
    assert "10.0 us by default, 8.0 us after 2 trials" in page
