"""A layer that a dense library would compute faster is told so."""

import numpy as np

import tvm_sparse as ts
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.cuda.chip import load
from tvm_sparse.selection.cuda.library_time import dense_seconds, faster_library

H200 = load("h200")


def linear(rows):
    return Contraction((rows,), 8192, 8192, numerics=Numerics.uniform("float16"))


def test_times_are_near_those_that_were_measured():
    for rows, us in ((16, 44.5), (256, 52.5), (4096, 720.0)):  # cuBLAS on an H200
        time = dense_seconds((rows, 8192, 8192), "float16", H200, H200.library) * 1e6
        assert us / 1.25 < time < us * 1.25


def test_who_is_clearly_slower_is_told():
    theirs = dense_seconds((256, 8192, 8192), "float16", H200, H200.library)
    told = faster_library(linear(256), 2 * theirs, H200)
    assert told.startswith("a dense library would be faster by the model: cuBLAS")
    assert faster_library(linear(256), theirs, H200) == ""


def test_depthwise_layers_and_other_types_have_no_such_library():
    c = Contraction((1, 8, 8), 32, 32, (3, 3), padded=(10, 10), depthwise=True)
    assert faster_library(c, 1.0, H200) == ""


def test_decisions_say_so():
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(2048, 2048).eval().half()
    model.weight.data *= torch.from_numpy(np.random.default_rng(0).random((2048, 2048)) > 0.5)
    x, alone = torch.zeros(256, 2048).half(), ts.Config(libraries=False)
    (decision,) = ts.compile(model, (x,), target="cuda:sm_90", config=alone).decisions
    assert decision.chosen == "dense"
    assert "a dense library would be faster by the model: cuBLAS" in decision.reason
