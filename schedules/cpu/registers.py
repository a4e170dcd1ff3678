"""How many results fit the registers of a CPU."""

from __future__ import annotations

from tvm.target import Target

from tvm_sparse.ops.lookup import host_features

LANES = 16


def accumulators(target: Target) -> int:
    """Return how many vectors of 16 fp32 lanes a register tile may hold on ``target``.

    AVX-512 has 32 registers of 16 lanes: half of them, since 28 already spill. AVX has 16 of 8
    lanes, SSE 16 of 4, NEON 32 of 4; a quarter is left for operands.
    """
    features = host_features(target)
    if "avx512f" in features:
        return 16
    registers, lanes = (32, 4) if "neon" in features else (16, 8 if "avx" in features else 4)
    return max(1, registers * 3 // 4 * lanes // LANES)


def vector_widths(target: Target) -> list[int]:
    """Return the fp32 lanes of a vector between which code for ``target`` may choose.

    AVX-512 has registers of both widths; elsewhere LLVM cuts 16 lanes into what there is.
    """
    return [LANES // 2, LANES] if "avx512f" in host_features(target) else [LANES]
