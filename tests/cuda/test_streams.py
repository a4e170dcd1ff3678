"""Streams and waits of whole calls, as a driver without a GPU writes them down."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc

pytestmark = needs_nvrtc

RUN = """
import json, os, numpy
from pathlib import Path
import tvm_sparse_runtime as rt
from tvm_sparse_runtime import engine, gpu

log = Path(os.environ["FAKE_CUDA_LOG"])
library = rt.load({path!r})
other = library.clone()
host = numpy.ones((17, 48), "float32")
x = gpu.copy(engine.tensor(host), "cuda")
sections = []

def call(session, stream, value):
    before = len(log.read_text())
    with engine.ffi().use_raw_stream(gpu._gpu(), stream):
        kept.append(session.run(value))
    sections.append(log.read_text()[before:].splitlines())

kept = []
for _ in range(3):  # what is warmed up, captured, and given memory
    for session in (library, other):
        call(session, 11, x)
    kept.clear()
sections.clear()
{calls}
print(json.dumps(sections))
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    """Two dense layers, one that asks cuBLASLt, of whose calls the inner ones are captured."""
    layers = torch.nn.Linear(48, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU()
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 8)).eval()
    x = torch.zeros(17, 48)
    library = ts.compile(model, (x,), target="cuda:sm_90", config=ts.Config(measure=False))
    return library.export(tmp_path_factory.mktemp("artifact") / "small.tvms")


@pytest.fixture
def called(artifact, fake_cuda):
    """Return the lines of the log of each call in Python code, in a process that is warmed up."""
    return lambda *calls: fake_cuda.run(RUN.format(path=str(artifact), calls="\n".join(calls)))


def on_streams(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return the streams of what a call put on them, in order, and what it was."""
    split = [line.split(maxsplit=2) for line in lines if line.startswith("stream ")]
    return [(int(number), what) for _, number, what in split]


def waits(lines: Sequence[str]) -> list[str]:
    """Return the lines in which the host waits for the GPU, or asks for memory."""
    return [line for line in lines if line.startswith(("wait for the device", "malloc"))]


def test_a_call_is_on_the_stream_of_its_caller_and_never_waits(called):
    first, second = called("call(library, 11, x)", "call(library, 11, x)")
    for lines in (first, second):
        work = on_streams(lines)
        assert {number for number, _ in work} == {11}
        assert {what for _, what in work} == {"kernel", "graph"}
        assert not waits(lines)


def test_a_call_on_another_stream_waits_there_for_the_one_before(called):
    one, two, three = called(
        *("call(library, 11, x)", "call(other, 12, x)", "call(library, 11, x)")
    )
    for lines, before, stream in ((two, 11, 12), (three, 12, 11)):
        recorded, waited, *work = on_streams(lines)
        assert recorded == (before, "record") and waited == (stream, "wait for the recorded")
        assert {number for number, _ in work} == {stream}
        assert not waits(lines)
    kernels = [[what for _, what in on_streams(lines) if what != "record"] for lines in (one, two)]
    assert len(kernels[0]) + 1 == len(kernels[1])


def test_results_on_the_host_are_waited_for_once(called):
    _, lines = called("call(library, 11, host)", "call(library, 11, host)")
    assert waits(lines) == ["wait for the device: stream"]
    work = on_streams(lines)
    copied = [place for place, (_, what) in enumerate(work) if what.startswith("copy")]
    # TVM copies on the default stream, which is put in order with the caller's on both sides.
    assert [work[place] for place in copied] == [(0, "copy"), (0, "copy to the host")]
    assert work[copied[0] + 1 : copied[0] + 3] == [(0, "record"), (11, "wait for the recorded")]
    assert work[copied[1] - 2 : copied[1]] == [(11, "record"), (0, "wait for the recorded")]
    assert work[-1] == (0, "wait of the host")
