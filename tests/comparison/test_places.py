"""Where programs race: the host, and a GPU whose clock is counted here."""

from __future__ import annotations

import sys
import types
from functools import partial

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from benchmarks.gpu.timeline import Timeline
from tvm_sparse.base.targets import parse_target
from tvm_sparse.cli.bench import OURS, OURS_DENSE, Race, raced, with_dense
from tvm_sparse.comparison import gpu_device, gpu_runtimes, places, programs, runtimes
from tvm_sparse.comparison.gpu_times import OwnGraphs

CPU, GPU = parse_target("cpu").target, parse_target("cuda:sm_90").target
X = np.ones((2, 8), "float32")


def test_code_that_does_not_run_here_is_no_race():
    with pytest.raises(ts.InputError, match="code for 'cuda:sm_90' does not run on this machine"):
        places.place_of(GPU, False, "cuda:sm_90")


def test_a_gpu_that_pytorch_does_not_find_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ts.InputError, match="finds no GPU"):
        places.place_of(GPU, True, "cuda")


def test_times_hold_nothing_of_the_host_and_late_ones_are_named():
    on = Timeline()
    made = {
        "graph": lambda: on.launch(25e-6, 400e-6),
        "own graphs": OwnGraphs(lambda: on.launch(30e-6, 400e-6)),
        "slow host": OwnGraphs(lambda: on.launch(30e-6, 1.0)),
    }
    times, late = places.timed_there(made, 12, on)
    assert times["graph"].median_us == pytest.approx(25)
    assert times["own graphs"].median_us == pytest.approx(30)
    assert times["graph"].calls == 12
    assert list(late) == ["slow host"] and "the host is not done" in late["slow host"]


@pytest.fixture
def gpu(monkeypatch):
    """A place like a GPU's, whose device is this CPU and whose clock is counted."""

    class Counted(Timeline):
        def captured(self, program):
            program()
            return lambda: self.launch(10e-6)

        def between(self, begin, end):
            return max(5e-6, end - begin)  # what the library takes here is not counted

    monkeypatch.setattr(gpu_runtimes, "GPU", "cpu")
    monkeypatch.setattr(gpu_device, "Cuda", Counted)
    # Inductor would search for half a minute.
    monkeypatch.setattr(torch, "compile", lambda module, mode: module)
    with monkeypatch.context() as there:
        there.setattr(torch.cuda, "is_available", lambda: True)
        return places._PLACES[GPU.get_target_device_type()]()


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_whole_race(gpu, dtype, tmp_path):
    torch.manual_seed(0)
    model, x = (
        nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval().to(dtype),
        torch.rand(2, 8).to(dtype),
    )
    path, config = tmp_path / "m.pt2", ts.Config(measure=False)
    torch.export.save(torch.export.export(model, (x,)), path)
    source = ts.load(str(path))
    library = ts.compile(source, config=config)
    array = x.float().numpy().astype(ml_dtypes.bfloat16 if dtype == torch.bfloat16 else "f4")
    of = Race(str(path), with_dense(library, source, None), None, 1, gpu)
    np.save(tmp_path / "x.npy", array)
    (run,) = of.runs([tmp_path / "x.npy"], None)
    rows, missing = raced(of, run, 3, [*gpu.runtimes], None)
    names = {row.program for row in rows}
    assert names == {OURS, OURS_DENSE, "PyTorch eager", "torch.compile max-autotune"}
    assert all(row.error < programs.tolerance([array]) for row in rows)
    (eager,) = [row for row in rows if row.program == "PyTorch eager"]
    assert eager.median_us == pytest.approx(10)
    assert missing == {"TensorRT": "the package 'torch_tensorrt' is not installed"}


def test_tensorrt_is_asked_in_the_type_of_the_inputs(monkeypatch):
    asked = []

    def compile_(module, **options):
        asked.append((options["ir"], options["enabled_precisions"]))
        return module

    monkeypatch.setattr(gpu_runtimes, "GPU", "cpu")
    found = types.SimpleNamespace(compile=compile_)
    monkeypatch.setitem(sys.modules, "torch_tensorrt", found)
    model = nn.Linear(8, 4).half().eval()
    case = runtimes.Case(model, None, (X.astype("float16"),), 1)
    (y,) = gpu_runtimes.RUNTIMES["TensorRT"][0](case, None)()
    assert asked == [("dynamo", {torch.float16})] and y.dtype == torch.float16


def test_float32_is_exact_in_a_race_and_as_it_was_behind_it():
    before = torch.backends.cudnn.allow_tf32
    with gpu_runtimes.exact_products():
        assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.allow_tf32 == before


def test_the_host_times_in_turns():
    host = places.place_of(CPU, True, "cpu")
    ran = []
    times, late = host.times({"a": partial(ran.append, 0), "b": partial(ran.append, 1)}, 2, None)
    assert set(times) == {"a", "b"} and not late
    assert host.put([X])[0] is X and host.ours(ran.append) == ran.append
