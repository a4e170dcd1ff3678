"""The caller's pass context stays in force while our passes run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from tvm import relax
from tvm.ir.instrument import PassTimingInstrument
from tvm.ir.transform import PassContext

import tvm_sparse as ts
from tvm_sparse.base.targets import parse_target
from tvm_sparse.schedules.build import build_context, pass_config


@tvm.instrument.pass_instrument
class Names:
    """Notes the names of passes."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def run_before_pass(self, _mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        self.seen.add(info.name)


def compiled() -> ts.Library:
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU()).eval()
    return ts.compile(model, (torch.zeros(2, 64),), config=ts.Config(measure=False))


@pytest.fixture(scope="module")
def library() -> ts.Library:
    return compiled()


def test_instruments_see_our_passes_and_those_of_the_build():
    names = Names()
    with PassContext(instruments=[names]):
        compiled()
    assert {"LowerContractions", "ApplySchedules", "FuseOps", "s_tir.LoopPartition"} <= names.seen


def test_the_times_of_passes_can_be_read():
    timing, config = PassTimingInstrument(), pass_config(parse_target("cpu").target)
    with PassContext(instruments=[timing], config=config):
        compiled()
        assert "LowerContractions" in timing.render()


@pytest.mark.parametrize("name", ["cpu", "cuda:sm_90"])
def test_settings_are_the_caller_s_and_our_own(name):
    target = parse_target(name).target
    caller = {
        "tirx.disable_vectorize": True,
        "s_tir.LoopPartition": {"no_unroll_loop_with_extent_one": True},
    }
    with PassContext(opt_level=1, disabled_pass=["FuseOps"], config=caller), build_context(target):
        inner = PassContext.current()
        assert (inner.opt_level, list(inner.disabled_pass)) == (1, ["FuseOps"])
        assert inner.config["tirx.disable_vectorize"]
        assert set(pass_config(target)) <= set(inner.config)
        assert inner.config["s_tir.LoopPartition"].partition_const_loop, "schedules rely on it"
        with build_context(target):
            assert PassContext.current().same_as(inner), "a second one is not entered"


@pytest.mark.parametrize(
    "shape, dtype",
    [((2, 63), "float32"), ((2, 64, 1), "float32"), ((3, 64), "float32"), ((2, 64), "float64")],
)
def test_programs_check_what_their_kernels_do_not(library, shape, dtype):
    main = relax.VirtualMachine(library.executable, tvm.cpu())["main"]
    weights = [tvm.runtime.tensor(weight) for weight in library.weights.values()]
    with pytest.raises((RuntimeError, ValueError), match="ErrorContext"):
        main(tvm.runtime.tensor(np.zeros(shape, dtype)), *weights)
