"""Whole networks for a GPU: from the command line to an artifact that a driver would run."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.cli import app
from tvm_sparse.demo.separable import build_separable
from tvm_sparse.pruning import deprune
from tvm_sparse.schedules import cuda

FACTORY = "tvm_sparse.demo.separable:build_separable"
CUBIN = b"\x7fELF\x02\x01\x01"
EM_CUDA = 190

RUN = """
import json, numpy, tvm_sparse_runtime as rt
library = rt.load({path!r})
x = numpy.ones((2, 1, 8, 8), "float32")
print(json.dumps([list(library(x).shape) for _ in range(3)]))
"""


@pytest.fixture(scope="module")
def pruned():
    """The demonstration's network with taps and filters removed by DEPrune."""
    model = build_separable()
    pruner = deprune(model, 0.7, 0.4, variant="DEPrune-B")
    pruner.step()
    pruner.squash_mask()
    return model


@pytest.fixture(scope="module")
def artifact(pruned, tmp_path_factory):
    """What ``tvm-sparse compile --target cuda:sm_90`` writes."""
    place = tmp_path_factory.mktemp("demo")
    save_file(pruned.state_dict(), place / "w.safetensors")
    options = ["--weights", str(place / "w.safetensors"), "--shape", "2,1,8,8", "--json"]
    command = ["compile", FACTORY, *options, "--target", "cuda:sm_90", "-o", str(place / "a.tvms")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), place / "a.tvms"


@needs_nvrtc
def test_the_demonstration_becomes_an_artifact_with_a_cubin(artifact):
    printed, place = artifact
    library = next(place.glob("*.so")).read_bytes()
    inside = [i for i in range(1, len(library)) if library.startswith(CUBIN, i)]
    machines = {int.from_bytes(library[i + 18 : i + 20], "little") for i in inside}
    assert EM_CUDA in machines
    assert b"__global__" not in library
    manifest = json.loads((place / "manifest.json").read_text())
    assert manifest["target"]["gpu_archs"] == ["sm_90"]
    assert len(printed["decisions"]) == 15
    assert all("not measured" in d["reason"] or d["reason"] for d in printed["decisions"])


@needs_nvrtc
def test_a_driver_would_run_it(artifact, fake_cuda):
    assert fake_cuda.run(RUN.format(path=str(artifact[1]))) == [[2, 10]] * 3
    (loaded,) = fake_cuda.lines("load")
    assert loaded[1] == "cubin"
    launched = {one.kernel for one in fake_cuda.launches()}
    assert any("depthwise" in name for name in launched)
    assert all(np.prod(one.block) <= 1024 for one in fake_cuda.launches())
    assert len(fake_cuda.lines("capture")) >= 1


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_takes_tensor_cores(pruned, dtype):
    model = build_separable()
    model.load_state_dict(pruned.state_dict())
    x = torch.zeros(2, 1, 8, 8, dtype=dtype)
    library = ts.compile(model.to(dtype), (x,), target="cuda:sm_80")
    rules = {kernel.layer: kernel.rule for kernel in library.kernels if kernel.layer}
    own = {rule.name for rule in cuda.RULES} - {rule.name for rule in cuda.REST}
    assert set(rules.values()) <= own
    assert rules["blocks.0.expand.0"] == "TileTensorCore"


@needs_nvrtc
def test_every_format_can_be_asked_for(tmp_path, fake_cuda):
    """Forced layer by layer, with an epilogue behind each, in one artifact for two generations."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(4))).eval()
    with torch.no_grad():
        for layer, format in zip(model, ("dense", "balanced", "block", "joint"), strict=True):
            layer.weight *= torch.rand_like(layer.weight) < 0.3
            if format in ("block", "joint"):
                layer.weight *= torch.block_diag(torch.ones(64, 64), torch.ones(64, 64))
    force = {"0": "dense", "1": "balanced", "2": "block", "3": "joint"}
    library = ts.compile(
        torch.nn.Sequential(*(torch.nn.Sequential(x, torch.nn.ReLU()) for x in model)),
        (torch.zeros(100, 128),),
        target="cuda:sm_80,sm_90",
        config=ts.Config(force={f"{k}.0": v for k, v in force.items()}),
    )
    chosen = {d.layer: d.chosen for d in library.decisions}
    assert chosen == {f"{k}.0": v for k, v in force.items()}
    assert all(dataclasses.asdict(d)["reason"] for d in library.decisions)
    library.export(tmp_path / "a.tvms")
    code = RUN.replace("(2, 1, 8, 8)", "(100, 128)").format(path=str(tmp_path / "a.tvms"))
    assert fake_cuda.run(code) == [[100, 128]] * 3
    assert len({one.kernel for one in fake_cuda.launches()}) == 4


def test_unstructured_zeros_are_named_padded_banks():
    model = torch.nn.Sequential(torch.nn.Linear(64, 32)).eval()
    with torch.no_grad():
        model[0].weight *= torch.rand(32, 64, generator=torch.Generator().manual_seed(0)) < 0.3
    config = ts.Config(force={"0": "unstructured"})
    with pytest.raises(ts.errors.InputError, match="padded banks"):
        ts.compile(model, (torch.zeros(2, 64),), target="cuda:sm_90", config=config)


def test_a_batch_that_is_not_known_runs_on_tensor_cores():
    model, x = torch.nn.Linear(48, 64).eval().half(), torch.zeros(40, 48).half()
    library = ts.compile(ts.load(model, (x,), dynamic_batch=True), target="cuda:sm_90")
    assert [kernel.rule for kernel in library.kernels] == ["TileTensorCore"]
