"""What the models of NVIDIA GPUs assume of kernels and of all chips, each with its source.

What differs from chip to chip, and what was fitted to measured times, is in ``chips``.
*Data sheet*: NVIDIA's whitepapers of the A100 and the H100. *Guide*: tables "Technical
Specifications per Compute Capability" and "Throughput of Native Arithmetic Instructions" of the
CUDA C++ Programming Guide. *Machine code*: counted in what the compiler makes of our kernels.
*Guess*: the order of magnitude is what is known.
"""

from __future__ import annotations

ISSUED = 128
"""Instructions of lanes that an SM issues a clock (data sheet: four schedulers of 32 lanes)."""

SM_REGISTERS, SM_THREADS, SM_BLOCKS = 65536, 2048, 32
"""Registers, threads and thread blocks of an SM at most (guide)."""

WARP_REGISTERS, BLOCK_SHARED = 256, 1024
"""A warp gets registers by so many; a block takes so many bytes of shared memory besides its own
(guide)."""

PASSED_OVER = 100.0
"""Clocks of a step of a tile that has nothing to copy or to multiply: two barriers (guess)."""

BANK_CLEAR, BANK_PLACE = 1.5, 10.0
"""Instructions of a thread to clear 16 bytes of a bank, and to place a value (machine code)."""

BANK_LOOKUP, BANK_PRODUCT = 7.5, 2.1
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
