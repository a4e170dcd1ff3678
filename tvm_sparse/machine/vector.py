"""The vectors that weights are stored in and code is written in, the same on every CPU."""

from __future__ import annotations

VECTOR_BITS = 512
"""Bits of a vector: one register of AVX-512, two of AVX2, four of NEON. LLVM cuts them up.

Artifacts and tuning records then do not depend on the CPU."""

VECTOR_BYTES = VECTOR_BITS // 8
"""Bytes of a vector."""

QUAD_BITS = 128
"""Shuffles within quads of so many bits are cheap on every x86."""

SUM_BITS = 32
"""Bits of a sum, whatever is multiplied."""

LANES = VECTOR_BITS // SUM_BITS
"""Sums of a vector."""

BANK = LANES
"""Columns of the smallest bank: a vector of activations of 32 bits."""

MOST_ACCUMULATORS = 24
"""Vectors of sums that spill on every machine if there are more: 28 do on 32 registers."""
