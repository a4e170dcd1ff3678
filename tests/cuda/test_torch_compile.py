"""``torch.compile`` for a GPU that an emulated driver stands in for: traced, kept, loaded, run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import environment

pytestmark = needs_nvrtc

SCRIPT = """
import json, torch
import tvm_sparse as ts
from tests.dynamo.test_backend import Mixed
from tvm_sparse.schedules.cuda import machine_code, nvrtc

def ptx(source, archs):
    return "ptx", nvrtc.compile_source(source, "compute_90").rstrip(bytes(1)) + bytes(1)

machine_code.machine_code = ptx  # text that the executor runs
torch.manual_seed(0)
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


def test_a_split_graph_runs_by_the_stand_in(tmp_path):
    own = environment(parse_target("cuda:sm_90").target, libraries=False)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        env={**os.environ, **own, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    errors, layers, devices = json.loads(done.stdout)
    assert max(errors) < 1e-5
    assert layers == ["before", "after"] and devices == ["cuda"] * 2
