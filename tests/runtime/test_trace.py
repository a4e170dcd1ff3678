"""Traces of calls, for Perfetto."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
import tvm_sparse_runtime as runtime
from tvm_sparse_runtime.errors import SparseRuntimeError, TensorError
from tvm_sparse_runtime.trace import trace

X = np.random.default_rng(0).random((2, 64), np.float32)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32)).eval()
    place = tmp_path_factory.mktemp("trace") / "m.tvms"
    compiled = ts.compile(model, (torch.from_numpy(X),), config=ts.Config(measure=False))
    compiled.export(place)
    return compiled, place


def test_every_kernel_lies_inside_of_its_call(compiled):
    library = runtime.load(compiled[1])
    before = library(X)
    events = json.loads(json.dumps(trace(library, [X], calls=2)))["traceEvents"]
    calls = [event for event in events if event["cat"] == "call"]
    assert [event["name"] for event in calls] == ["call 0", "call 1"]
    assert events[0]["ts"] == 0
    wanted = [kernel.function for kernel in compiled[0].kernels]
    for call in calls:
        end = call["ts"] + call["dur"]
        inside = [e for e in events if e is not call and call["ts"] <= e["ts"] < end]
        assert [e["name"] for e in inside if e["cat"] == "kernel"] == wanted
        assert all(e["ts"] + e["dur"] <= end + 1e-3 for e in inside)
        assert {e["cat"] for e in inside} == {"kernel", "builtin"}
    np.testing.assert_array_equal(library(X), before)


def test_wrong_inputs_and_gpus_are_refused(compiled):
    library = runtime.load(compiled[1])
    with pytest.raises(TensorError):
        trace(library, [X[:1]])
    library.device = "cuda"
    with pytest.raises(SparseRuntimeError, match="nsys"):
        trace(library, [X])
