import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.comparison import runtimes


@pytest.fixture
def uneven(here):
    """Two linear layers, the first one with 90 % zeros anywhere, as ``uneven.pt2``."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32)).eval()
    model[0].weight.data *= torch.rand(96, 64) > 0.9
    torch.export.save(torch.export.export(model, (torch.rand(3, 64),)), here / "uneven.pt2")
    return here / "uneven.pt2"


@pytest.fixture(autouse=True)
def no_int8(monkeypatch):
    monkeypatch.setattr(runtimes, "INT8", ())
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        monkeypatch.setenv(name, "1")


@pytest.fixture
def compiled(monkeypatch):
    """Whether each compilation of the model as it is looked for zeros."""
    found, compile = [], ts.compile

    def counted(model, *, config=None, **options):
        found.append((config or ts.Config()).sparse)
        return compile(model, config=config, **options)

    monkeypatch.setattr(ts, "compile", counted)
    return found


def test_layers_and_the_whole(call_json, uneven, compiled):
    np.save("x.npy", np.ones((3, 64), np.float32))
    found = call_json("explain", uneven, "--input", "x.npy")
    assert compiled == [True, False]
    first, second = found["layers"]
    assert first["nearest"]["pattern"].startswith("balanced")
    assert 0 < first["nearest"]["in_the_way"] < first["nearest"]["nonzeros"]
    assert second["nearest"] is None and second["chosen"] == "dense"
    assert {row["program"] for row in found["whole"]} == {"tvm-sparse", "tvm-sparse, all dense"}


def test_the_table_and_the_reasons(call, uneven):
    printed = call("explain", uneven, "--no-whole").stdout
    assert "in the way" in printed and "2: dense, no zeros" in printed
    assert "the whole" not in printed


def test_a_gpu_that_is_not_here_is_told_by_its_model(call_json, here):
    """A dense library that is faster is chosen; nothing runs, so nothing is measured."""
    torch.manual_seed(0)
    model = nn.Linear(2048, 1024).eval().half()
    model.weight.data *= torch.rand(1024, 2048) > 0.5
    example = (torch.zeros(256, 2048).half(),)
    torch.export.save(torch.export.export(model, example), here / "wide.pt2")
    found = call_json("explain", here / "wide.pt2", "--target", "cuda:h200")
    assert found["whole"] == []
    (layer,) = found["layers"]
    assert layer["chosen"] == "cublaslt" and layer["us"] is None
    assert "by cuBLASLt where it is there (cuBLAS and a kernel behind it" in layer["reason"]


def test_a_library_that_is_faster_for_2_4_is_told(call_json, here):
    model = nn.Linear(4096, 4096).eval().half()
    model.weight.data.view(-1, 4)[:, 2:] = 0
    example = (torch.zeros(4096, 4096).half(),)
    torch.export.save(torch.export.export(model, example), here / "quads.pt2")
    (layer,) = call_json("explain", here / "quads.pt2", "--target", "cuda:h200")["layers"]
    assert layer["chosen"] == "cusparselt"
    assert "by cuSPARSELt where it is there (timed with one layer alone" in layer["reason"]
    assert "us by the model), by our own kernel elsewhere" in layer["reason"]


def test_what_zeros_would_gain_in_patterns_of_tensor_cores(call, call_json, here):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 64)).eval().half()
    model[0].weight.data *= torch.rand(2048, 2048) > 0.9
    example = (torch.zeros(256, 2048).half(),)
    torch.export.save(torch.export.export(model, example), here / "zeros.pt2")
    first, second = call_json("explain", here / "zeros.pt2", "--target", "cuda:sm_90a")["layers"]
    gains = first["regular"]
    assert list(gains) == ["block 64x64", "block 128x64", "balanced 2 of 4"]
    assert min(gains["block 64x64"], gains["block 128x64"]) > gains["balanced 2 of 4"] > 1
    assert second["regular"] == {}
    printed = call("explain", here / "zeros.pt2", "--target", "cuda:sm_90a").stdout
    assert "by the model: block 64x64" in " ".join(printed.split())


def test_one_program_is_explained(call, here):
    torch.export.save(torch.export.export(nn.Linear(8, 8), (torch.zeros(1, 8),)), here / "one.pt2")
    said = call("explain", here / "one.pt2", "--target", "cuda:sm_80,sm_90a", status=1).stderr
    assert "'cuda:sm_80,sm_90a' is 2 programs" in " ".join(said.split())
