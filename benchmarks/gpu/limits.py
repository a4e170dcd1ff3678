"""What the GPU can do at best: copy bandwidth, and cuBLAS over rows of activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.gpu import device
from benchmarks.gpu.cases import SIZE
from benchmarks.gpu.timing import Timer

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
COPY_BYTES = 1 << 30


def rows(timer: Timer) -> Iterator[dict[str, Any]]:
    """Yield the bandwidth of a copy, then the time of a product for each dtype and row count."""
    on = device.current()
    yield _copy(timer)
    torch.set_float32_matmul_precision("highest")
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        weight = on.put(torch.randn(SIZE, SIZE)).to(dtype)
        programs = {}
        for count in ROWS:
            x = on.put(torch.randn(count, SIZE)).to(dtype)
            programs[f"N={count}"] = lambda x=x: torch.nn.functional.linear(x, weight)
        case = f"{SIZE}x{SIZE} {str(dtype).removeprefix('torch.')}"
        yield {"case": case, **timer.row(programs)}


def _copy(timer: Timer) -> dict[str, Any]:
    """Return the bandwidth of a copy, bytes read and written."""
    source = device.current().put(torch.ones(COPY_BYTES // 4))
    copy = torch.empty_like(source)
    row = timer.row({"copy": lambda: copy.copy_(source)})
    bandwidth = 2 * COPY_BYTES / row["times"]["copy"]["median_us"] / 1e6
    return {"case": "copy", **row, "terabytes_per_second": bandwidth}
