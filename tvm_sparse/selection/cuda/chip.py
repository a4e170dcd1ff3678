"""Limits of GPUs that tile sizes and the choice of a kernel are modelled with."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.target import Target


@dataclass(frozen=True)
class Chip:
    """What one GPU can do.

    ``bandwidth`` is bytes a second from memory as a copy reaches it, ``multiply_adds`` one SM's
    fused multiply-adds a clock by dtype as a good kernel without ``wgmma`` reaches them,
    ``feed`` the bytes a clock that one SM gets from L2.
    """

    name: str
    sms: int
    clock: float
    bandwidth: float
    multiply_adds: dict[str, float]
    feed: float = 32.0

    def rate(self, dtype: str) -> float:
        """Multiply-adds a second of the whole chip."""
        return self.sms * self.clock * self.multiply_adds[dtype]


A100 = Chip(
    "A100",
    sms=108,
    clock=1.41e9,
    bandwidth=1.7e12,
    multiply_adds={"float32": 50.0, "float16": 400.0, "bfloat16": 400.0},
)
"""Peaks are 64 and 1024 multiply-adds a clock (NVIDIA A100 whitepaper, table 1)."""

H200 = Chip(
    "H200",
    sms=132,
    clock=1.75e9,
    bandwidth=4.3e12,
    multiply_adds={"float32": 100.0, "float16": 620.0, "bfloat16": 620.0},
)
"""Peaks are 128 and 2048; ``mma.sync`` reaches about 60 % of what ``wgmma`` does on Hopper."""


def chip(target: Target) -> Chip:
    """Return the chip that stands for the target's architecture."""
    generation = int(str(target.attrs["arch"]).removeprefix("sm_")) // 10
    return A100 if generation < 9 else H200
