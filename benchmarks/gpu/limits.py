"""What the GPU can do at best: copy bandwidth, and cuBLAS over rows of activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.gpu.cases import SIZE
from benchmarks.gpu.timing import gpu_times

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
COPY_BYTES = 1 << 30


def rows(repeats: int) -> Iterator[dict[str, Any]]:
    """Yield the bandwidth of a copy, then the time of a product for each dtype and row count."""
    yield _copy(repeats)
    torch.set_float32_matmul_precision("highest")
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        weight = torch.randn(SIZE, SIZE, device="cuda").to(dtype)
        programs = {}
        for count in ROWS:
            x = torch.randn(count, SIZE, device="cuda").to(dtype)
            programs[f"N={count}"] = lambda x=x: torch.nn.functional.linear(x, weight)
        times = gpu_times(programs, repeats)
        yield {"case": f"{SIZE}x{SIZE} {str(dtype).removeprefix('torch.')}", "times": times}


def _copy(repeats: int) -> dict[str, Any]:
    """Return the bandwidth of a copy, bytes read and written."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    copy = torch.empty_like(source)
    taken = gpu_times({"copy": lambda: copy.copy_(source)}, repeats)["copy"]
    bandwidth = 2 * COPY_BYTES / taken["median_us"] / 1e6
    return {"case": "copy", "times": {"copy": taken}, "terabytes_per_second": bandwidth}
