"""``torch.compile`` for a GPU that an emulated driver stands in for: traced, kept, loaded, run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import environment

pytestmark = needs_nvrtc

BEGIN = """
import json, torch
import tvm_sparse as ts
from tvm_sparse.schedules.cuda import machine_code, nvrtc

def ptx(source, archs):
    return "ptx", nvrtc.compile_source(source, "compute_90").rstrip(bytes(1)) + bytes(1)

machine_code.machine_code = ptx  # text that the executor runs
torch.manual_seed(0)
"""

SCRIPT = (
    BEGIN
    + """
from tests.dynamo.test_backend import Mixed
model, x = Mixed().eval(), torch.randn(3, 8)
model.before.weight.data *= torch.arange(8) % 4 == 0
fast = torch.compile(model, backend="tvm_sparse", options={"measure": False, "target": "cuda"})
with torch.no_grad():
    errors = [float((fast(x) - model(x)).abs().max()) for _ in range(2)]
parts = ts.partitions(fast).parts
layers = [d["layer"] for part in parts for d in part.decisions]
devices = [part.library.device for part in parts]
print(json.dumps([errors, layers, devices]))
"""
)


DYNAMIC = (
    BEGIN
    + """
from tests.emulation.networks import Attention
model = Attention().eval().half()
options = {"measure": False, "target": "cuda"}
fast = torch.compile(model, backend="tvm_sparse", dynamic=True, options=options)
errors = []
with torch.no_grad():
    for size in ((2, 9), (3, 17), (2, 33)):
        x = torch.randn(*size, 64).half()
        errors.append(float((fast(x) - model(x)).abs().max()))
print(json.dumps([errors, len(ts.partitions(fast).parts)]))
"""
)


def run(script, folder):
    """Return what a program prints last, under the stand-in for the driver."""
    own = environment(parse_target("cuda:sm_90").target, libraries=False)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env={**os.environ, **own, "XDG_CACHE_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_split_graph_runs_by_the_stand_in(tmp_path):
    errors, layers, devices = run(SCRIPT, tmp_path)
    assert max(errors) < 1e-5
    assert layers == ["before", "after"] and devices == ["cuda"] * 2


@pytest.mark.slow
def test_one_part_serves_all_batches_and_lengths(tmp_path):
    errors, parts = run(DYNAMIC, tmp_path)
    assert max(errors) < 2e-2
    assert parts == 1
