"""What the GPU can do at best: copy bandwidth, and cuBLAS over rows of activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.gpu.cases import SIZE
from benchmarks.gpu.timing import Timer

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
COPY_BYTES = 1 << 30


def rows(timer: Timer) -> Iterator[dict[str, Any]]:
    """Yield the bandwidth of a copy, then the time of a product for each dtype and row count."""
    yield _copy(timer)
    torch.set_float32_matmul_precision("highest")
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        weight = torch.randn(SIZE, SIZE, device="cuda").to(dtype)
        programs = {}
        for count in ROWS:
            x = torch.randn(count, SIZE, device="cuda").to(dtype)
            programs[f"N={count}"] = lambda x=x: torch.nn.functional.linear(x, weight)
        case = f"{SIZE}x{SIZE} {str(dtype).removeprefix('torch.')}"
        yield {"case": case, **timer.row(programs)}


def _copy(timer: Timer) -> dict[str, Any]:
    """Return the bandwidth of a copy, bytes read and written."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    copy = torch.empty_like(source)
    row = timer.row({"copy": lambda: copy.copy_(source)})
    bandwidth = 2 * COPY_BYTES / row["times"]["copy"]["median_us"] / 1e6
    return {"case": "copy", **row, "terabytes_per_second": bandwidth}
