"""PyTorch's side of a GPU, with what CUDA would do written down instead."""

from __future__ import annotations

import contextlib

import pytest
import torch
import tvm_ffi

from benchmarks.gpu import device
from benchmarks.gpu.device import Cuda


class Graph:
    """Keeps a program's last call, as a capture does, and runs it when it is replayed."""

    def __init__(self, log):
        self.log = log

    def capture_begin(self, capture_error_mode):
        self.log.append("begin")

    def capture_end(self):
        self.log.append("end")

    def replay(self):
        self.log.append("replay")
        self.work()


@pytest.fixture
def cuda(monkeypatch):
    """A ``Cuda`` without its flush arrays, the graph that it makes, and the order of events."""
    log, graph = [], None

    @contextlib.contextmanager
    def entered(name):
        log.append(f"into {name}")
        try:
            yield
        finally:
            log.append(f"out of {name}")

    class Stream:
        cuda_stream = 7

    graph = Graph(log)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: entered("torch"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("wait"))
    monkeypatch.setattr(tvm_ffi, "device", lambda kind, number: (kind, number))
    monkeypatch.setattr(tvm_ffi, "use_raw_stream", lambda where, stream: entered(f"tvm {stream}"))
    found = object.__new__(Cuda)
    found.graph, found.log = graph, log
    return found


def test_a_program_is_warmed_up_captured_and_seen_to_write(cuda):
    out = torch.zeros(3)

    def program():
        cuda.log.append("program")
        out.fill_(1.0)
        return out

    cuda.graph.work = lambda: out.fill_(1.0)
    replay = cuda.captured(program)
    inside = ["into torch", "into tvm 7", "begin", "program", "end", "out of tvm 7", "out of torch"]
    assert cuda.log == ["program", "wait", *inside, "replay", "wait"]
    assert replay == cuda.graph.replay


def test_a_capture_that_fails_leaves_the_streams_as_they_were(cuda):
    calls = []

    def program():
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("operation not permitted when stream is capturing")
        return torch.zeros(1)

    with pytest.raises(RuntimeError, match="not permitted"):
        cuda.captured(program)
    assert cuda.log[-3:] == ["end", "out of tvm 7", "out of torch"]


def test_a_graph_that_holds_nothing_is_refused(cuda):
    cuda.graph.work = lambda: None
    with pytest.raises(RuntimeError, match="does not write its output"):
        cuda.captured(lambda: torch.zeros(2, 2))


def test_what_cannot_be_seen_is_refused(cuda):
    with pytest.raises(RuntimeError, match="no output"):
        cuda.captured(lambda: torch.zeros(2, dtype=torch.int32))


def test_outputs_inside_tuples_are_seen():
    first, second = torch.zeros(2), torch.zeros(1)
    assert device.poisoned((first, [second, torch.zeros(1, dtype=torch.int8)]))[1] is second
    with pytest.raises(RuntimeError):
        device.require_written([first])


def test_why_there_is_no_device(monkeypatch):
    monkeypatch.delenv(device.STAND_IN, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "finds no NVIDIA GPU" in device.missing()
    monkeypatch.setenv(device.STAND_IN, "1")
    assert device.missing() == ""
