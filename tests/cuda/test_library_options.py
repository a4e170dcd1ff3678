"""When a library computes a dense layer, and what is said of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc, target
from tvm_sparse.base.numerics import FLOAT32, Numerics
from tvm_sparse.errors import InputError
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.candidates import dense_candidate, dense_candidates

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
    assert list(offered((1, 32, 32), 64, 64, **taps)) == ["dense"]
    strided = {"taps": (1, 1), "strides": (2, 2), "dilation": (1, 1), "padded": (63, 63)}
    assert list(offered((1, 32, 32), 64, 64, **strided)) == ["dense"]


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


@needs_nvrtc
def test_open_extents_are_ours():
    model, x = nn.Linear(64, 64).half(), torch.zeros(32, 64).half()
    dims = ({0: torch.export.Dim("rows", min=2, max=64)},)
    config = ts.Config(force={"*": "cublaslt"})
    with pytest.raises(InputError, match="does not fit 'cublaslt'"):
        ts.compile(model, (x,), dynamic_shapes=dims, target="cuda:sm_90", config=config)
