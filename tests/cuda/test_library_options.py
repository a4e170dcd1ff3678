"""When a library computes a dense layer, and what is said of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from tvm import tirx

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc, target
from tvm_sparse.base.numerics import FLOAT32, Numerics
from tvm_sparse.errors import InputError
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.candidates import dense_candidate, dense_candidates
from tvm_sparse.selection.cuda import library_options
from tvm_sparse.selection.cuda.chip import chip
from tvm_sparse.selection.cuda.demand import seconds as demand_seconds
from tvm_sparse.selection.cuda.tile_choice import choose_tile
from tvm_sparse.selection.cuda.tile_demand import Staging
from tvm_sparse.selection.cuda.tile_option import stored_demand

HALF = Numerics.uniform("float16")


def offered(lead, columns=768, features=3072, numerics=HALF, **how):
    c = Contraction(lead, columns, features, numerics=numerics, **how)
    return {one.name: one for one in dense_candidates(c, target("sm_90"))}


def test_the_direct_sum_comes_first():
    c = Contraction((4096,), 768, 3072, numerics=HALF)
    assert dense_candidate(c, target("sm_90")).name == "dense"


def test_a_large_layer_of_halves_is_the_librarys():
    found = offered((4096,))
    assert found["cublaslt"].margin * found["cublaslt"].cost < found["dense"].cost
    # Both branches read the same weights, once.
    format = found["cublaslt"].format
    assert format.row_blocks == 1
    assert format.nbytes("float16") == 768 * 3072 * 2


def test_single_precision_asks_for_much_more():
    assert offered((4096,), numerics=FLOAT32)["cublaslt"].margin > 2


@pytest.mark.parametrize(
    ("lead", "columns", "features"),
    [((16,), 768, 3072), ((4096,), 767, 3072), ((4096,), 768, 3071)],
)
def test_what_a_library_is_not_asked_for(lead, columns, features):
    assert list(offered(lead, columns, features)) == ["dense"]


def test_windows_are_no_products():
    taps = {"taps": (3, 3), "strides": (1, 1), "dilation": (1, 1), "padded": (34, 34)}
    assert "cublaslt" not in offered((1, 32, 32), 64, 64, **taps)
    strided = {"taps": (1, 1), "strides": (2, 2), "dilation": (1, 1), "padded": (63, 63)}
    assert "cublaslt" not in offered((1, 32, 32), 64, 64, **strided)


@needs_nvrtc
def test_decisions_say_who_computes():
    model, x = nn.Linear(768, 3072).half(), torch.zeros(4096, 768).half()
    decisions = ts.compile(model, (x,), target="cuda:sm_90").decisions
    assert decisions.verdict() == "0 of 1 layers sparse; 1 dense by cuBLASLt where it is there"
    (decision,) = decisions
    assert decision.chosen == "cublaslt"
    assert "by cuBLASLt where it is there" in decision.reason
    assert "by our own kernel elsewhere" in decision.reason
    config = ts.Config(libraries=False)
    (decision,) = ts.compile(model, (x,), target="cuda:sm_90", config=config).decisions
    assert decision.chosen == "dense"
    assert "a dense library would be faster" in decision.reason


def test_nobody_forces_what_is_not_allowed():
    config = ts.Config(libraries=False, force={"*": "cublaslt"})
    with pytest.raises(InputError, match="does not fit 'cublaslt'"):
        ts.compile(nn.Linear(64, 64), (torch.zeros(32, 64),), target="cuda:sm_90", config=config)


def test_open_rows_are_the_librarys_from_where_it_is_faster():
    rows = tirx.Var("rows", "int64")
    found = offered((rows,))
    assert found["cublaslt"].cost < found["dense"].cost == 1
    least = library_options.fewest(
        Contraction((rows,), 768, 3072, numerics=HALF), chip(target("sm_90"))
    )
    assert 16 < least < 4096
    assert f"from {least} rows on" in found["cublaslt"].rival
    assert list(offered((rows,), numerics=FLOAT32)) == ["dense"]


def test_open_rows_have_a_tile_for_few_and_for_many_where_no_library_is():
    rows = tirx.Var("rows", "int64")
    on, staging = chip(target("sm_90")), Staging(768)

    def seconds(tile, count):
        c = Contraction((count,), 768, 768, numerics=HALF)
        demand = stored_demand(c, library_options.library.one_matrix(c, tile), tile, on)
        return demand_seconds(demand, on)

    tile = choose_tile(Contraction((rows,), 768, 768, numerics=HALF), staging, on)
    for count in (1, 64, 512, 4096, 16384):
        best = choose_tile(Contraction((count,), 768, 768, numerics=HALF), staging, on, whole=True)
        assert seconds(tile, count) < 2 * seconds(best, count)
