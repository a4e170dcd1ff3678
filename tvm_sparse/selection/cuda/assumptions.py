"""All that the models of NVIDIA GPUs assume, each with its source.

Measured times are in docs/performance/gpu.md; nothing here was fitted to them yet. *Data sheet*:
NVIDIA's whitepapers of the A100 and the H100. *Guide*: tables "Technical Specifications per Compute
Capability" and "Throughput of Native Arithmetic Instructions" of the CUDA C++ Programming Guide.
*Machine code*: counted in what the compiler makes of our kernels. *Guess*: the order of magnitude
is what is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm.target import Target


@dataclass(frozen=True)
class Chip:
    """What one GPU can do.

    ``bandwidth`` is bytes a second from memory as a copy reaches it, ``multiply_adds`` one SM's
    fused multiply-adds a clock by dtype as a good kernel without ``wgmma`` reaches them,
    ``feed`` the bytes a clock that one SM gets from L2, ``shared`` its bytes of shared memory.
    ``pipes`` are results of lanes that an SM gives a clock, by the pipes that PTX shows: ``alu``
    has integers, moves and comparisons, ``half`` pairs of fp16, ``special`` approximated functions
    and fp64, ``memory`` all accesses.
    """

    name: str
    sms: int
    clock: float
    bandwidth: float
    multiply_adds: dict[str, float]
    shared: int
    pipes: dict[str, float]
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
    shared=164 * 1024,
    pipes={"fma": 64, "alu": 64, "half": 128, "special": 16, "memory": 32, "control": 64},
)
"""Data sheet: 108 SMs, 1.41 GHz, 2.0e12 B/s, 64 and 1024 multiply-adds a clock. Guess: 85 % of the
bandwidth, 80 % of the fp32 peak and 40 % of the tensor cores' are reached; 32 bytes from L2.
Guide: shared memory and pipes."""

H200 = Chip(
    "H200",
    sms=132,
    clock=1.75e9,
    bandwidth=4.3e12,
    multiply_adds={"float32": 100.0, "float16": 620.0, "bfloat16": 620.0},
    shared=228 * 1024,
    pipes={"fma": 128, "alu": 64, "half": 128, "special": 16, "memory": 32, "control": 64},
)
"""Data sheet: 132 SMs, 4.8e12 B/s, 128 and 2048 multiply-adds a clock; 989e12 operations of fp16
a second are 1.83 GHz. Guess: 1.75 GHz under load, 90 % of the bandwidth, 80 % of the fp32 peak;
``mma.sync`` reaches about 60 % of what ``wgmma`` does, and half of that in our tiles. Guide: shared
memory and pipes."""


def chip(target: Target) -> Chip:
    """Return the chip that stands for the target's architecture."""
    generation = int(str(target.attrs["arch"]).removeprefix("sm_")) // 10
    return A100 if generation < 9 else H200


LAUNCH_SECONDS = 2e-6
"""What a kernel inside a graph costs whatever it does (guess, from published launch times)."""

STEP_CLOCKS = 60.0
"""Clocks of a step of a tile whatever its size: barriers, addresses, first bytes (guess)."""

MEMORY_CLOCKS, BARRIER_CLOCKS = 600.0, 30.0
"""Clocks until bytes of memory arrive, and that a barrier takes (guess, from published
micro-benchmarks of both generations)."""

STEP_LATENCY = 1000.0
"""Clocks from the first load of a fused pair's step to the barrier behind its products (guess)."""

ISSUED = 128
"""Instructions of lanes that an SM issues a clock (data sheet: four schedulers of 32 lanes)."""

SM_REGISTERS, SM_THREADS, SM_BLOCKS = 65536, 2048, 32
"""Registers, threads and thread blocks of an SM at most (guide)."""

WARP_REGISTERS, BLOCK_SHARED = 256, 1024
"""A warp gets registers by so many; a block takes so many bytes of shared memory besides its own
(guide)."""

BANK_CLEAR, BANK_PLACE = 1.5, 8.0
"""Instructions of a thread to clear 16 bytes of a bank, and to place a value (machine code)."""

BANK_LOOKUP, BANK_PRODUCT = 5.5, 2.1
"""Instructions to look a column up, and to multiply one activation of it (machine code of both bank
kernels)."""

TAP_STORE, TAP_LOAD, TAP_PLACE = 2.0, 1.5, 8.0
"""Instructions of depthwise kernels to store an output, to stage a pixel, and to find out where a
tap lies (machine code)."""

STRIP_LOAD = 4.0
"""Instructions that load one vector of a strip's window: address, border, load, conversions begin
(machine code)."""

STRIP_REGISTERS, OTHER_REGISTERS = 130, 64
"""Registers that a strip's window and taps may take, and those for addresses, fragments and sums
of taps (machine code, about)."""
