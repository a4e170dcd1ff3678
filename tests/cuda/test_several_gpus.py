"""One artifact for several GPUs: the runtime takes the program for the one that is here."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.runtime import native
from tvm_sparse.artifact.own_key import own_key
from tvm_sparse.base.targets import cuda_archs, parse_target
from tvm_sparse.cli.app import app
from tvm_sparse.emulation.process import Emulator, environment
from tvm_sparse.errors import InputError
from tvm_sparse.selection.cuda import wgmma_option
from tvm_sparse.testing import emulate
from tvm_sparse_runtime import config, verification
from tvm_sparse_runtime.programs import lines

pytestmark = needs_nvrtc

TARGET = "cuda:sm_80,sm_90a"
CONFIG = ts.Config(measure=False, libraries=False)


class Layers(nn.Module):
    """One layer that is stored alike for all GPUs, and one that Hopper stores in its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.shared = nn.Linear(512, 512), nn.Linear(512, 8)

    def forward(self, x):
        return self.shared(torch.relu(self.own(x)))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = Layers().eval()
    for parameter in model.parameters():
        parameter.data = torch.randint(-2, 3, parameter.shape).float()
    kept = torch.rand(8, 8) < 0.3
    model.own.weight.data *= kept.repeat_interleave(64, 0).repeat_interleave(64, 1)
    return model.half()


@pytest.fixture(scope="module")
def x():
    return torch.randint(-1, 2, (16, 512)).half()


@pytest.fixture(scope="module")
def library(model, x):
    with pytest.MonkeyPatch.context() as patch:  # layers so small run by mma.sync
        for kind, factor in (("kept", 0.01), ("matrix", 100.0)):
            patch.setitem(wgmma_option.UNMEASURED, kind, factor)
        return ts.compile(model, (x,), target=TARGET, config=CONFIG)


def shapes(report):
    """Return how many threads each kernel had, and how much shared memory."""
    return [(launch.grid, launch.block, launch.shared) for launch in report.launches]


@pytest.fixture(scope="module")
def artifact(library, tmp_path_factory):
    place = tmp_path_factory.mktemp("several") / "a.tvms"
    return library.export(place, ptx=True, sign=own_key())


def test_it_is_a_program_for_each(library):
    programs = [library, *library.alternatives]
    assert [cuda_archs(one.target) for one in programs] == [("sm_80",), ("sm_90a",)]
    rules = [{kernel.rule for kernel in one.kernels if kernel.layer} for one in programs]
    assert "TileWgmma" in rules[1] - rules[0]


@pytest.mark.parametrize(("arch", "place"), [("sm_80", 0), ("sm_86", 0), ("sm_90a", 1)])
def test_each_gpu_takes_its_own(artifact, library, model, x, arch, place):
    with Emulator(parse_target(f"cuda:{arch}").target) as emulator:
        ((outputs, report),) = emulator.run_artifact(artifact, [[x.numpy()]])
    assert not report.findings
    wanted = copy.deepcopy(model).float()(x.float()).detach().numpy()
    np.testing.assert_array_equal(outputs[0], wanted.astype("float16"))
    alone = emulate(library.alternatives[0], x.numpy(), calls=1)
    assert not alone.report.findings
    assert (shapes(report) == shapes(alone.report)) == bool(place)


def test_c_takes_the_same(artifact, x, tmp_path):
    np.save(tmp_path / "x.npy", x.numpy())
    found = []
    for arch in ("sm_80", "sm_90a"):
        variables, own = native.environment(), environment(parse_target(f"cuda:{arch}").target)
        places = f"{own['LD_LIBRARY_PATH']}:{variables['LD_LIBRARY_PATH']}"
        log = tmp_path / f"{arch}.log"
        command = [config.place("program"), artifact, "--input", "x.npy", "--output", "y.npy"]
        done = subprocess.run(
            command,
            env={**variables, **own, "LD_LIBRARY_PATH": places, "FAKE_CUDA_LOG": str(log)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append((np.load(tmp_path / "y.npy"), log.read_text()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] != found[1][1]


@pytest.mark.parametrize("opened", ["native.opened(path)[0], native.last_error()", "0, python()"])
def test_a_gpu_that_none_fits(artifact, fake_cuda, monkeypatch, opened):
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", "75")
    said = fake_cuda.run(
        "import json; from pathlib import Path; from tests.runtime import native\n"
        "import tvm_sparse_runtime as rt\n"
        f"path = Path({str(artifact)!r})\n"
        "def python():\n"
        "    try: rt.load(path)\n"
        "    except rt.RuntimeArtifactError as error: return str(error)\n"
        f"print(json.dumps([{opened}]))"
    )
    assert "made for sm_80, sm_90a, this GPU is sm_75" in said[1]
    assert "compile for cuda:sm_75" in said[1]


def test_the_artifact_says_what_it_holds(artifact, library):
    manifest = verification.read_manifest(artifact)
    first, second = lines(manifest, manifest.programs()[1])
    assert first.startswith("program for sm_80: ") and "above" not in first
    assert second.startswith("program for sm_90a: ") and second.endswith("it runs here")
    assert "are those of the programs above" in second
    stored = {w.offset: w.nbytes for one in manifest.programs() for w in one.weights}
    both = library.nbytes + library.alternatives[0].nbytes
    assert library.nbytes < sum(stored.values()) < both
    for made, program in zip((library, *library.alternatives), manifest.programs(), strict=True):
        assert [d["chosen"] for d in program.decisions] == [d.chosen for d in made.decisions]


def test_a_list_of_gpus_is_a_program_for_each(model, x):
    library = ts.compile_for(
        model, (x,), targets=["cuda:sm_90a", "cuda:sm_90", "cuda:sm_80"], config=CONFIG
    )
    programs = [library, *library.alternatives]
    assert [cuda_archs(p.target) for p in programs] == [("sm_80",), ("sm_90",), ("sm_90a",)]


def test_a_refreshable_artifact_is_one_program(model, x):
    with pytest.raises(InputError, match="False where there are several programs"):
        ts.compile(model, (x,), target=TARGET, config=ts.Config(refreshable=True))


def test_the_command_line_tells_of_each(model, x, tmp_path):
    source, place = tmp_path / "model.pt2", tmp_path / "a.tvms"
    torch.export.save(torch.export.export(model, (x,)), source)
    command = ["compile", str(source), "--target", TARGET, "--no-measure", "-o", str(place)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "program for sm_90a: " in done.output and "cuda:sm_90a: " in done.output
    done = CliRunner().invoke(app, [*command[:-1], str(tmp_path / "b.tvms"), "--json"])
    (other,) = json.loads(done.output)["alternatives"]
    assert other["target"] == "cuda:sm_90a" and len(other["decisions"]) == 2
