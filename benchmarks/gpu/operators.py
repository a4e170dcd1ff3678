"""Every operator that the compiler may choose on a GPU, as a small layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import tirx
from tvm.target import Target

from benchmarks.gpu.pairs import pair_option, pointwise_behind
from tvm_sparse.base.numerics import INTEGERS, Numerics
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.mends import in_use, using
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules import cuda
from tvm_sparse.schedules.rule import first_schedule
from tvm_sparse.selection.cuda import depthwise_options, library_options, options
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse_runtime.libraries import CUBLASLT

DEPTHWISE = Contraction(
    (2, 14, 14), 64, 64, (5, 5), (1, 1), (1, 1), padded=(14, 14), borders=(2, 2), depthwise=True
)
CONVOLUTION = Contraction(
    (2, 14, 14), 64, 64, (3, 3), (1, 1), (1, 1), padded=(14, 14), borders=(1, 1)
)

WIDE = Contraction((8,), 8192, 64)
"""Activations that do not fit on chip in fp32."""

BYTES = ("int8", "uint8")

LONG = Contraction((16,), 2048, 128)
"""So few features that the reduction is cut into parts."""

FEATURES = 32
"""Features of the 1x1 layer behind :data:`DEPTHWISE`."""


@dataclass(frozen=True)
class Operator:
    """A layer with the format and the kernel that compute it.

    The compiler may choose it unless it is ``tried`` only. Its reduction is cut into ``parts``
    or not: results tell kernels apart by format and name alone. What only one architecture has
    names it as ``arch``.
    """

    layer: str
    contraction: Contraction
    format: str
    kernel: str
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    tried: bool = False
    parts: bool = False
    arch: str = ""


def _linear(rows: int) -> Contraction:
    return Contraction((rows,), 512, 256)


OPERATORS = {
    operator.layer: operator
    for operator in (
        Operator(
            "dense, N = 1",
            _linear(1),
            "dense",
            "stream",
        ),
        Operator("dense", _linear(128), "dense", "tile"),
        Operator("dense in parts", LONG, "dense", "tile", parts=True),
        Operator("dense convolution", CONVOLUTION, "dense", "tile"),
        Operator("balanced, N = 1", _linear(1), "balanced", "stream"),
        Operator("balanced, N = 8", _linear(8), "balanced", "stream"),
        Operator("balanced, N = 8, in parts", WIDE, "balanced", "stream", parts=True),
        Operator("balanced", _linear(128), "balanced", "tile"),
        Operator("balanced in parts", LONG, "balanced", "tile", parts=True),
        Operator("balanced convolution", CONVOLUTION, "balanced", "tile"),
        Operator("unstructured convolution", CONVOLUTION, "balanced", "tile"),
        Operator("block", _linear(128), "block", "tile"),
        Operator("block convolution", CONVOLUTION, "block", "tile"),
        Operator("joint", _linear(128), "joint", "tile"),
        *(
            Operator(f"{format} bytes", _linear(128), format, "byte tile", BYTES)
            for format in ("dense", "balanced", "joint")
        ),
        Operator("dense bytes, convolution", CONVOLUTION, "dense", "byte tile", BYTES),
        Operator("dense bytes in parts", LONG, "dense", "byte tile", BYTES, parts=True),
        Operator(
            "2:4",
            _linear(128),
            "two_four",
            "2:4 tile",
            dtypes=("float16", "bfloat16"),
            tried=True,
        ),
        Operator(
            "dense depthwise",
            DEPTHWISE,
            "dense",
            "strip",
        ),
        Operator(
            "depthwise taps",
            DEPTHWISE,
            "depthwise_taps",
            "taps of lanes",
        ),
        Operator(
            "depthwise as sub-GEMMs",
            DEPTHWISE,
            "rearranged",
            "sub-GEMM",
        ),
        Operator(
            "depthwise + pointwise",
            DEPTHWISE,
            "separable",
            "depthwise + pointwise",
        ),
    )
}


HOPPER = {
    operator.layer: operator
    for operator in (
        Operator(layer, _linear(128), format, "wgmma", ("float16", "bfloat16"), arch="sm_90a")
        for layer, format in (
            ("block, Hopper", "block"),
            ("2:4, Hopper", "two_four"),
            ("balanced, Hopper", "balanced"),
            ("joint, Hopper", "joint"),
            ("dense, Hopper", "dense"),
            ("dense, a library's matrix, Hopper", CUBLASLT),
        )
    )
}
"""What Hopper alone has, for that architecture's own code."""

LISTED = {
    ("unstructured convolution", "float32", "sm_90"): (
        8,
        "the assembler adds two stores and one load to the whole kernel, at 56 registers",
    ),
    **{
        ("depthwise + pointwise", "bfloat16", arch): (
            8,
            "the assembler adds two stores and two loads to the whole kernel, at 168 registers",
        )
        for arch in ("sm_80", "sm_89")
    },
}
"""Operator, dtype and architecture with local memory: most bytes of a thread, and why."""


def numerics_of(dtype: str) -> Numerics:
    """Return what a layer of ``dtype`` computes with: bytes have sums of int32."""
    return next((n for n in INTEGERS if n.activation == dtype), Numerics.uniform(dtype))


def option_of(operator: Operator, dtype: str, target: Target) -> Option:
    """Return what the compiler builds for the operator's layer in ``dtype``."""
    c = replace(operator.contraction, numerics=numerics_of(dtype))
    matrix = weight(operator, np.random.default_rng(0)).astype(stored_as(c))
    if operator.format == "rearranged":
        return depthwise_options.rearranged(c, matrix, target)
    if operator.format == "separable":
        return pair_option(c, pointwise_behind(c, FEATURES), target)
    if operator.tried:
        (option,) = options.two_four(c, Scan(matrix), target)
        return option
    engine = operator.kernel if operator.arch else in_use().block_engine
    with using(replace(in_use(), block_engine=engine)):
        if operator.format == "dense":
            return options.dense(c, target)
        if operator.format == CUBLASLT:
            shared = library_options.product(c, target)
            assert shared is not None
            return replace(shared, kernel=operator.kernel)
        found = list(options.sparse(c, Scan(matrix), target))
    (option,) = (o for o in found if not isinstance(o, str) and o.name == operator.format)
    return option


def stored_as(c: Contraction) -> np.dtype[Any]:
    """Return the type of the matrix that formats are made for: bytes, else single precision."""
    return np.dtype(np.float32 if c.numerics.floating else c.numerics.weight)


def weight(operator: Operator, rng: np.random.Generator) -> np.ndarray:
    """Return small integers: 4 of 16 for balanced layers, 2 of 4, or 70 % zeros anywhere.

    Coarse masks keep a third of the 64 x 64 blocks.
    """
    shape = operator.contraction.matrix_shape
    values = rng.integers(1, 5, shape).astype(np.float32)
    if operator.layer.startswith("balanced"):
        return values * Balanced(16, 4).project(rng.random(shape, dtype=np.float32))
    if operator.format == "two_four":
        return values * Balanced(4, 2).project(rng.random(shape, dtype=np.float32))
    values *= rng.random(shape) >= 0.7
    if operator.format in ("block", "joint"):
        blocks = np.zeros((-(-shape[0] // 64), -(-shape[1] // 64)), bool)
        blocks[:, ::3] = True
        values *= np.repeat(np.repeat(blocks, 64, 0), 64, 1)[: shape[0], : shape[1]]
    return values


def scheduled(option: Option, target: Target) -> tuple[tirx.PrimFunc, Any]:
    """Return the option's function as the first rule schedules it, and that rule's name."""
    found = first_schedule(option.build(), target, cuda.RULES)
    if found is None:
        raise LookupError(f"no schedule rule takes {option}")
    schedule, rule = found
    return schedule.mod["main"].with_attr("global_symbol", "main"), rule
