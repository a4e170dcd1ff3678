"""When cuSPARSELt computes a 2:4 layer, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from tvm import tirx

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc, target
from tvm_sparse.base.numerics import FLOAT32, Numerics
from tvm_sparse.errors import InputError
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidates import sparse_candidates
from tvm_sparse.selection.cuda.chip import Quads, chip
from tvm_sparse.selection.cuda.library_options import margin
from tvm_sparse.selection.cuda.library_time import two_four_seconds
from tvm_sparse.selection.cuda.two_four_options import fewest

HALF = Numerics.uniform("float16")


def pruned(features, columns, keep=2):
    scores = np.random.default_rng(0).random((features, columns), dtype="f4") + 1
    return scores * Balanced(4, keep).project(scores)


def offered(lead, columns=1024, features=1024, numerics=HALF, arch="sm_90", keep=2, **how):
    c = Contraction(lead, columns, features, numerics=numerics, **how)
    scan = Scan(pruned(features, columns, keep).astype(c.dtype))
    found = sparse_candidates(c, scan, target(arch))
    return {one.name: one for one in found if not isinstance(one, str)}


def test_many_rows_are_the_librarys():
    found = offered((4096,), 2048, 2048)
    theirs, ours = found["cusparselt"], found["two_four"]
    assert theirs.cost * theirs.margin < ours.cost
    # Both branches come from the same arrays.
    assert type(theirs.format) is type(ours.format)
    assert theirs.own_seconds == ours.seconds


def test_times_of_one_layer_ask_for_more():
    found = offered((4096,), 2048, 2048)["cusparselt"]
    assert found.margin == 1.3
    assert "timed with one layer alone: cuSPARSELt and a kernel behind it" in found.rival
    assert "by our own kernel elsewhere" in found.rival


def test_what_is_not_clearly_faster_than_ours_is_not_worth_it():
    """It counts as no faster than dense, though it can be forced."""
    assert offered((64,))["cusparselt"].cost >= 1
    assert offered((4096,), 4096, 4096, arch="sm_90a")["cusparselt"].cost >= 1


@pytest.mark.parametrize(
    ("lead", "columns", "features", "how"),
    [
        ((16,), 1024, 1024, {}),
        ((4096,), 1000, 1024, {}),
        ((4096,), 1024, 1000, {}),
        ((4096,), 1024, 1024, {"keep": 3}),
        ((4096,), 1024, 1024, {"numerics": FLOAT32}),
    ],
)
def test_what_it_is_not_asked_for(lead, columns, features, how):
    assert "cusparselt" not in offered(lead, columns, features, **how)


def test_open_rows_are_its_own_from_where_it_is_faster():
    rows = tirx.Var("rows", "int64")
    c = Contraction((rows,), 4096, 4096, numerics=HALF)
    least = fewest(c, target("sm_90"))
    assert 16 < least < 4096
    found = offered((rows,), 4096, 4096)
    assert found["cusparselt"].cost < found["two_four"].cost
    assert f"from {least} rows on, where it is there" in found["cusparselt"].rival


def test_rows_that_fill_up_no_multiple_take_a_second_product():
    on = chip(target("sm_90"))
    whole, odd, few = (two_four_seconds((n, 4096, 4096), "float16", on) for n in (512, 513, 8))
    assert odd == pytest.approx(whole + few)


def test_times_that_were_measured_are_taken_as_they_are():
    on = chip(target("sm_90"))
    known = replace(on, library=replace(on.library, quads=Quads(10.0, 0.6, measured=True)))
    assert known.margin < 1.3
    c = Contraction((4096,), 1024, 1024, numerics=HALF)
    assert margin(c, "cusparselt", known) == on.margin


def layer(columns, features):
    model = nn.Linear(columns, features).half()
    model.weight.data.copy_(torch.from_numpy(pruned(features, columns)))
    return model


@needs_nvrtc
def test_decisions_say_who_computes():
    model, x = layer(4096, 4096), torch.zeros(4096, 4096).half()
    decisions = ts.compile(model, (x,), target="cuda:sm_90").decisions
    assert decisions.verdict().startswith("1 of 1 layers sparse")
    assert "; 1 2:4 by cuSPARSELt where it is there" in decisions.verdict()
    (decision,) = decisions
    assert decision.chosen == "cusparselt"
    assert "by cuSPARSELt where it is there (timed with one layer alone" in decision.reason
    config = ts.Config(libraries=False)
    (decision,) = ts.compile(model, (x,), target="cuda:sm_90", config=config).decisions
    assert decision.chosen != "cusparselt"
    assert "cuSPARSELt" not in decision.reason


def test_nobody_forces_what_is_not_allowed():
    config = ts.Config(libraries=False, force={"*": "cusparselt"})
    with pytest.raises(InputError, match="does not fit 'cusparselt'"):
        x = torch.zeros(32, 64).half()
        ts.compile(layer(64, 64), (x,), target="cuda:sm_90", config=config)
