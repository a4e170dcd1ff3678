"""``tvm-sparse quantize`` and what `compile` makes of its program."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.exported import exported


@pytest.fixture
def batches(here):
    x = np.random.default_rng(0).standard_normal((3, 64), np.float32)
    np.save(here / "x.npy", x)
    return ["--calibration", "x.npy"]


def test_the_program_compiles_to_bytes(call, call_json, here, batches):
    assert call("quantize", "factories:small", "-o", "q.pt2", *batches).stdout == "wrote q.pt2\n"
    call_json("compile", "q.pt2", "-o", "q", "--no-measure", "--check")
    assert call_json(
        "quantize", "factories:small", "-o", "q.pt2", "--force", "--ignore", "0", *batches
    ) == {"program": "q.pt2", "batches": 1, "left_float": {}}


def test_layers_that_lose_more_than_the_tolerance_stay_float(call, call_json, here, batches):
    options = ["factories:small", "-o", "q.pt2", "--tolerance", "1e-6", *batches]
    left = call_json("quantize", *options)["left_float"]
    assert left.keys() == {"0", "2"}
    printed = call("quantize", *options, "--force").stdout
    assert f"0 stays float: bytes would change its output by {left['0']:.1%}" in printed


def test_scales_may_be_found_when_the_program_runs(call, call_json, here, batches):
    options = ["-o", "q.pt2", "--activations", "dynamic"]
    call_json("quantize", "factories:small", *options, *batches)
    call_json("compile", "q.pt2", "-o", "q", "--no-measure", "--check")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["factories:small", "-o", "q.onnx"], 2, "not a .pt2 file"),
        (["model.pt2", "-o", "q.pt2"], 1, "is no factory"),
        (["factories:small", "-o", "q.pt2", "--ignore", "7"], 1, "no module '7'"),
        (["factories:small", "-o", "q.pt2", "--activations", "fast"], 1, "static or dynamic"),
        (["factories:small", "-o", "there.pt2"], 1, "exists"),
        (["factories:small", "-o", "q.pt2", "--tolerance", "0"], 1, "above zero"),
    ],
)
def test_what_cannot_be_done_is_refused(call, here, batches, arguments, status, message):
    (here / "there.pt2").touch()
    assert message in call("quantize", *arguments, *batches, status=status).stderr


def test_an_onnx_file_becomes_one_with_bytes(call, call_json, here, small, batches):
    exported(small, torch.rand(3, 64), here / "m.onnx", old=True)
    base = ["quantize", "m.onnx", "-o", "q.onnx", *batches]
    assert call(*base).stdout == "wrote q.onnx\n"
    call_json("compile", "q.onnx", "-o", "q", "--no-measure", "--check")
    found = call_json(*base, "--force", "--ignore", "0", "--activations", "dynamic")
    assert found == {"model": "q.onnx", "batches": 1, "left_float": {"0": "in ignore"}}
    printed = call(*base, "--force", "--tolerance", "1e-6").stdout
    assert "0 stays float: bytes would change its output by" in printed
    assert (
        "not a .onnx file" in call("quantize", "m.onnx", "-o", "q.pt2", *batches, status=2).stderr
    )
