"""Quantized layers on every machine that runs here, against NumPy's integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm.target import Target

from tests.kernels import host, run
from tvm_sparse.base.numerics import INTEGERS, samples
from tvm_sparse.formats.protocol import Format
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.selection.narrow import stored

MACHINES = {
    "AVX-512 VNNI VBMI": "icelake-server",
    "AVX-512 VNNI": "cascadelake",
    "AVX-512 BW": "skylake-avx512",
    "AVX2": "haswell",
    "AVX": "sandybridge",
    "plain CPU": "x86-64",
}
"""An LLVM name of each machine of this architecture."""

NAMES = {numerics.activation: numerics for numerics in INTEGERS}

Operator = Callable[[Contraction, Any, Target], Any]


def targets() -> dict[str, Target]:
    """Return the machines whose instructions this one has, by name."""
    from tvm_sparse.machine.registry import MACHINES as RECORDS
    from tvm_sparse.machine.registry import features_of

    here = features_of(host())
    return {
        name: host(cpu)
        for name, cpu in MACHINES.items()
        if here.issuperset(next(m.features for m in RECORDS if m.name == name))
    }


TARGETS = targets()


def as_integers(c: Contraction, activation: str = "uint8", zero_point: int = 0) -> Contraction:
    """Return ``c`` with bytes for its input and weights."""
    return replace(c, numerics=NAMES[activation], zero_point=zero_point)


def sparse_bytes(rng: np.random.Generator, shape: tuple[int, int], sparsity: float) -> np.ndarray:
    """Return weights of the whole range, about ``sparsity`` of them zero."""
    return samples(rng, shape, "int8") * (rng.random(shape) >= sparsity)


def bytes_of(rng: np.random.Generator, c: Contraction) -> np.ndarray:
    """Return an input of ``c``: its whole range, both ends of which are frequent."""
    x = samples(rng, c.input_shape, c.dtype)
    limits = np.iinfo(c.dtype)
    ends = rng.choice(np.array([limits.min, limits.max], c.dtype), x.shape)
    return np.where(rng.random(x.shape) < 0.3, ends, x)


def assert_integers(
    c: Contraction,
    matrix: np.ndarray,
    inner: Format,
    operator: Operator,
    target: Target | None = None,
) -> None:
    """Check ``operator`` on the format ``inner`` of ``matrix``: every result is exact."""
    target = target or host()
    x = bytes_of(np.random.default_rng(1), c)
    arrays = stored(inner, c, target).encode(matrix)
    func = operator(c, inner, target)
    got = run(func, [x, *arrays.values()], c.output_shape, target, c.out_dtype)
    np.testing.assert_array_equal(got, reference(c, x, matrix))
