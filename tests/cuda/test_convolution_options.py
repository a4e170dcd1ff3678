"""When cuDNN computes a convolution, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from tvm import tirx

import tvm_sparse as ts
from benchmarks.harness.rows import loads
from tests.cuda.kernels import needs_nvrtc, target
from tvm_sparse.base.numerics import FLOAT32, Numerics
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.candidates import dense_candidates
from tvm_sparse.selection.cuda import convolution_options, library_options, options
from tvm_sparse.selection.cuda.chip import Windows, chip
from tvm_sparse.selection.cuda.library_time import convolution_seconds

HALF = Numerics.uniform("float16")
MEASURED = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "gpu_models.json"


def convolution(batch=32, extent=28, channels=128, features=128, edge=3, stride=1, **how):
    own = {
        "lead": (batch, *(-(-extent // stride),) * 2),
        "columns": channels,
        "features": features,
        "taps": (edge, edge),
        "strides": (stride, stride),
        "dilation": (1, 1),
        "padded": (extent, extent),
        "numerics": HALF,
        "borders": (edge // 2, edge // 2),
    }
    return Contraction(**{**own, **how})


def ways(axes):
    """Return the windows of 3 taps along so many axes of 28."""
    one = {"taps": 3, "strides": 1, "dilation": 1, "padded": 28, "borders": 1}
    return {name: (value,) * axes for name, value in one.items()}


def offered(c):
    return {one.name: one for one in dense_candidates(c, target("sm_90"))}


@pytest.mark.parametrize(
    "c",
    [
        convolution(),
        convolution(edge=7, stride=2, channels=3),
        convolution(edge=1, stride=2, borders=(0, 0)),
        convolution(lead=(32, 28), **ways(1)),
        convolution(lead=(32, 26, 26), borders=()),
        convolution(numerics=FLOAT32),
    ],
)
def test_what_cudnn_is_offered(c):
    found = offered(c)
    assert list(found) == ["dense", "cudnn"]
    # Both branches read the same weights, once: features first, as cuDNN has them.
    format = found["cudnn"].format
    assert (format.row_blocks, format.lanes) == (c.features, 1)


@pytest.mark.parametrize(
    "c",
    [
        convolution(edge=1, borders=()),
        convolution(groups=4, channels=32),
        convolution(depthwise=True),
        convolution(guarded=True),
        convolution(features=127),
        convolution(batch=1, extent=4),
        convolution(lead=(32, tirx.Var("height", "int64"), 28)),
        convolution(lead=(32, 14, 14), strides=(2, 2), borders=(0, 0)),
        convolution(lead=(32, 30, 28)),
        convolution(lead=(2, 28, 28, 28), **ways(3)),
    ],
)
def test_what_it_is_not_asked_for(c):
    assert "cudnn" not in offered(c)


def test_times_that_nobody_measured_ask_for_more():
    found = offered(convolution())["cudnn"]
    assert found.margin == 1.3
    assert found.margin * found.cost < 1
    assert offered(convolution(numerics=FLOAT32))["cudnn"].margin > 2
    assert "never measured alone: cuDNN and a kernel behind it" in found.rival
    assert "by our own kernel elsewhere" in found.rival


def test_an_open_batch_is_cudnns_from_where_it_is_faster():
    batch = tirx.Var("batch", "int64")
    c = convolution(batch, 56, 64, 64)
    found = offered(c)
    assert found["cudnn"].cost < found["dense"].cost == 1
    option = convolution_options.convolution(c, target("sm_90"))
    assert 1 < option.least < 64
    assert f"from {option.least} items on, where it is there" in found["cudnn"].rival
    assert "cudnn" not in offered(convolution(batch, numerics=FLOAT32))


def test_times_that_were_measured_are_taken_as_they_are():
    on = chip(target("sm_90"))
    known = replace(on, library=replace(on.library, windows=Windows(2.0, 1.0, measured=True)))
    option, c = convolution_options.convolution(convolution(), target("sm_90")), convolution()
    found = library_options.candidate(c, option, 1.0, known)
    assert found.margin == on.margin
    assert "(cuDNN and a kernel behind it" in found.rival
    assert convolution_seconds(c, known) == 2 * convolution_seconds(c, on)


def layers(batch):
    """Yield the convolutions of ResNet-50 for images of 224 x 224."""
    yield convolution(batch, 224, 3, 64, 7, 2)
    channels, extent = 64, 56
    for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for place in range(count):
            stride = 2 if stage and not place else 1
            yield convolution(batch, extent, channels, width, 1)
            yield convolution(batch, extent, width, width, 3, stride)
            if not place:
                yield convolution(batch, extent, channels, 4 * width, 1, stride)
            extent //= stride
            yield convolution(batch, extent, width, 4 * width, 1)
            channels = 4 * width


@pytest.mark.parametrize("batch", [1, 32])
def test_the_model_of_all_layers_is_near_a_network_that_was_measured(batch):
    """PyTorch's, all of whose convolutions are cuDNN's, with kernels behind them."""
    on = chip(target("sm_90"))
    rows = loads(MEASURED.read_text())["rows"]
    (row,) = (row for row in rows if row["case"] == f"resnet50 fp16, batch {batch}")
    times = {name: taken["median_us"] for name, taken in row["times"].items()}
    theirs = sum(convolution_seconds(c, on) + library_options.behind(c, on) for c in layers(batch))
    ours = sum(options.dense(c, target("sm_90")).seconds for c in layers(batch))
    assert 0.7 < theirs * 1e6 / times["torch.compile reduce-overhead"] < 1.3
    assert times["ours dense"] > on.library.windows.ours * ours * 1e6


@needs_nvrtc
def test_decisions_say_who_computes():
    model = nn.Conv2d(128, 128, 3, padding=1).half()
    x = torch.zeros(32, 128, 28, 28).half()
    decisions = ts.compile(model, (x,), target="cuda:sm_90").decisions
    assert decisions.verdict() == "0 of 1 layers sparse; 1 dense by cuDNN where it is there"
    (decision,) = decisions
    assert decision.chosen == "cudnn"
    assert "by cuDNN where it is there (never measured alone" in decision.reason
    config = ts.Config(libraries=False)
    (decision,) = ts.compile(model, (x,), target="cuda:sm_90", config=config).decisions
    assert decision.chosen == "dense"
