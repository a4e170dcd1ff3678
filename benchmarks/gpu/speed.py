"""How many instructions of lanes a second the executor of PTX runs on this CPU, one thread.

python -m benchmarks.gpu.speed
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.harness.common import environment, save
from tvm_sparse.schedules.cuda.nvrtc import compile_source
from tvm_sparse_emulator import executor

EDGE, BLOCKS = 256, 4
SOURCES = {
    "multiply-adds in registers": """
extern "C" __global__ void k(float* x) {
  float a = x[threadIdx.x], s = 0.0f;
  for (int i = 0; i < 4096; ++i) s = fmaf(a, s, 1.0f);
  x[threadIdx.x] = s;
}""",
    "a product through shared memory": """
extern "C" __global__ void k(float* x) {
  __shared__ float left[16][17], right[16][17];
  int row = threadIdx.x / 16, column = threadIdx.x % 16;
  float s = 0.0f;
  for (int i = 0; i < 64; ++i) {
    left[row][column] = x[threadIdx.x] + i;
    right[row][column] = x[threadIdx.x] - i;
    __syncthreads();
    for (int k = 0; k < 16; ++k) s = fmaf(left[row][k], right[k][column], s);
    __syncthreads();
  }
  x[blockIdx.x * 256 + threadIdx.x] = s;
}""",
}


def main() -> None:
    rows = []
    for name, source in SOURCES.items():
        ptx = compile_source(source, "compute_90").rstrip(b"\0")
        for sanitize in (False, True):
            rows.append({"kernel": name, "sanitizer": sanitize, **speed(ptx, sanitize)})
    save("gpu_speed", {"environment": environment(1), "rows": rows})


def speed(ptx: bytes, sanitize: bool) -> dict[str, float]:
    """Return instructions of lanes, and how many a second of processor time; the best of five."""
    executor.options(sanitize=sanitize)
    best, count = float("inf"), 0
    for _ in range(5):
        x = np.ones(BLOCKS * EDGE, "f4")
        begin = time.process_time()
        report = executor.execute(ptx, "k", (BLOCKS, 1, 1), (EDGE, 1, 1), [x])
        best = min(best, time.process_time() - begin)
        count = sum(launch.instructions for launch in report.launches)
    executor.options()
    return {"instructions": count, "per_second": count / best}


if __name__ == "__main__":
    main()
