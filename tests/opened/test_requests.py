"""One artifact serves ten thousand requests of mixed shapes: results are right, memory is flat."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.opened.layers import Masked
from tests.random_sequences import Along
from tests.runtime import fresh, native
from tvm_sparse_runtime import config

MOST = 96
REQUESTS = 10_000
GROWTH = 4 << 10
"""KiB that a process may take after a tenth of the requests."""


def network() -> nn.Module:
    """Return layers of each sort, pruned, for sequences of 16 features."""
    torch.manual_seed(0)
    layers = (
        *(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), Masked(64)),
        *(Along(nn.Conv1d(64, 32, 3, padding=1)), nn.ReLU(), nn.Linear(32, 16)),
    )
    model = nn.Sequential(*layers).eval().requires_grad_(False)
    ts.prune.balanced(model, 0.75).squash_mask()
    return model


@pytest.fixture(scope="module")
def model():
    return network()


@pytest.fixture(scope="module")
def artifact(model, tmp_path_factory):
    shapes = ({0: Dim("batch", min=1, max=MOST), 1: Dim("steps", min=1, max=MOST)},)
    config = ts.Config(measure=False, cache=False, tuned=False)
    library = ts.compile(model, (torch.randn(2, 20, 16),), dynamic_shapes=shapes, config=config)
    return library.export(tmp_path_factory.mktemp("requests") / "a.tvms")


PYTHON = """
import sys
import numpy as np
import tvm_sparse_runtime as runtime

library, count, most = runtime.load(sys.argv[1], threads=1), *map(int, sys.argv[2:4])
rng, seen = np.random.default_rng(0), {}
row = (np.arange(most * most * 16) % 17 / 8 - 1).astype(np.float32)

def resident():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

for request in range(count):
    shape = (*rng.integers(1, most + 1, 2).tolist(), 16)
    found = library(row[: shape[0] * shape[1] * 16].reshape(shape))
    if seen.setdefault(shape, hash(found.tobytes())) != hash(found.tobytes()):
        print("another result in request", request, file=sys.stderr)
    if request == count // 10: print(resident())
print(resident())
"""


@pytest.mark.slow
def test_python(artifact):
    done = fresh.run(PYTHON, artifact, REQUESTS, MOST, timeout=500)
    assert (done.returncode, done.stderr) == (0, "")
    early, late = map(int, done.stdout.split())
    assert late - early < GROWTH


@pytest.mark.slow
def test_cpp(artifact, tmp_path):
    compiler = shutil.which("c++") or pytest.skip("no C++ compiler")
    library = config.library()
    source, program = Path(__file__).with_name("requests.cc"), tmp_path / "requests"
    flags = ["-std=c++17", "-O1", f"-I{config.place('includedir')}", f"-Wl,-rpath,{library.parent}"]
    subprocess.run([compiler, *flags, source, library, "-o", program], check=True)
    command = [program, artifact, str(REQUESTS), str(MOST)]
    environment = native.environment()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    early, late = map(int, done.stdout.split())
    assert late - early < GROWTH


def test_values(artifact, model):
    """What such requests give is right."""
    from tvm_sparse_runtime import load

    library, rng = load(artifact), np.random.default_rng(1)
    for batch, steps in [(1, 1), (MOST, MOST), *rng.integers(1, MOST + 1, (6, 2)).tolist()]:
        x = torch.randn(batch, steps, 16)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)
