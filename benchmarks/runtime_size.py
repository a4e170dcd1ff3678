"""What the runtime brings: its wheel, a fresh environment with it alone, the first call there.

    python tools/wheels.py dist --machine x86_64
    python -m benchmarks.runtime_size dist/tvm_sparse_runtime-*.whl    # results/runtime_size.json

Sizes are those of the files that pip writes down, in MB (10^6 bytes). A first call is a fresh
process: import of NumPy and of the runtime, loading, one call; Python's own start is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import common

NAME = "runtime_size"
PROCESSES = 15
ITSELF = ("pip", "setuptools")
"""What an empty environment has."""

_SIZES = """
import json
from importlib.metadata import distributions
found = {}
for one in distributions():
    paths = {one.locate_file(file) for file in one.files or ()}
    found[one.metadata["Name"]] = sum(p.stat().st_size for p in paths if p.exists()) / 1e6
print(json.dumps(found))
"""

_FIRST_CALL = """
import time
begin = time.perf_counter()
import numpy as np
import tvm_sparse_runtime as rt
rt.load({path!r})(np.zeros((2, 64), np.float32))
seconds = time.perf_counter() - begin
import json, pathlib
status = pathlib.Path("/proc/self/status").read_text()
kib = int(status.partition("VmHWM:")[2].split()[0])
print(json.dumps({{"seconds": seconds, "resident_mb": kib * 1024 / 1e6}}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog=f"benchmarks.{NAME}", description=__doc__)
    parser.add_argument("wheel", type=Path, help="of tvm-sparse-runtime")
    parser.add_argument("--shared", action="store_true", help="say that others used the machine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(options.wheel, _artifact(Path(folder)), Path(folder), PROCESSES)
    about = common.environment(common.THREADS[-1]) | {"shared machine": options.shared}
    print(common.save(NAME, {"environment": about, **found}))


def measured(wheel: Path, artifact: Path, folder: Path, processes: int) -> dict[str, Any]:
    """Return sizes and times of the runtime in ``wheel``, installed alone below ``folder``.

    ``artifact`` takes one float32 array of (2, 64). What the runtime needs comes from the package
    index. ``wheel_mb`` is the file; ``installed_mb`` has each distribution; ``first_call_s`` and
    ``resident_mb`` are medians of so many ``processes``.
    """
    python = folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    sizes = {n: mb for n, mb in _answer(python, _SIZES).items() if n not in ITSELF}
    code = _FIRST_CALL.format(path=str(artifact))
    _answer(python, code)  # writes Python's caches
    calls = [_answer(python, code) for _ in range(processes)]
    return {
        "wheel_mb": wheel.stat().st_size / 1e6,
        "installed_mb": sizes,
        "first_call_s": float(np.median([call["seconds"] for call in calls])),
        "resident_mb": float(np.median([call["resident_mb"] for call in calls])),
    }


def ours(found: dict[str, Any]) -> float:
    """Return the MB that the runtime brings besides NumPy."""
    return sum(mb for name, mb in found["installed_mb"].items() if name != "numpy")


def _answer(python: Path, code: str) -> dict[str, Any]:
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _artifact(folder: Path) -> Path:
    import torch
    from torch import nn

    import tvm_sparse as ts

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    return Path(ts.compile(model, (torch.zeros(2, 64),)).export(folder / "model.tvms"))


if __name__ == "__main__":
    main()
