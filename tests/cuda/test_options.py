"""Every operator that the compiler may choose on a GPU: built, its machine code looked at."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks.gpu.operators import LISTED, OPERATORS, option_of, scheduled
from tests.cuda.kernels import needs_nvrtc, source, target
from tests.kernels import integers
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules import cuda
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.instructions import instruction_counts
from tvm_sparse.schedules.cuda.resources import kernel_resources
from tvm_sparse.selection.cuda import options

WIDE = {
    "stream": ("LDG.128",),
    "tile": ("LDGSTS.128",),
    "strip": ("LDG.128", "STG.128"),
    "taps of lanes": ("LDG.128",),
    "sub-GEMM": ("LDGSTS.128",),
    "depthwise + pointwise": ("LDG.128",),
}
WIDE_HALF = {
    **WIDE,
    "tile": ("LDGSTS.128", "STG.128"),
    "sub-GEMM": ("LDGSTS.128", "STG.128"),
    "taps of lanes": ("LDG.64",),
    "depthwise + pointwise": ("LDG.128", "LDG.64", "STG.128"),
}
"""Accesses of 16 bytes that a kernel must have (the assembler may split stores of fp32 sums); four
taps of 16-bit channels are 8 bytes."""

WIDE_BYTES = {"byte tile": ("LDGSTS.128", "STG.128")}

OF_BYTES = [layer for layer, operator in OPERATORS.items() if operator.kernel in WIDE_BYTES]
CHOSEN = [layer for layer, o in OPERATORS.items() if not o.tried and layer not in OF_BYTES]
TENSOR_CORE = ("tile", "sub-GEMM", "depthwise + pointwise")


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(("dtype", "arch"), [("float32", "sm_80"), ("float16", "sm_90")])
@pytest.mark.parametrize("layer", CHOSEN)
def test_machine_code(layer, dtype, arch):
    assert_machine_code(layer, dtype, arch)


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(("dtype", "arch"), [("uint8", "sm_80"), ("int8", "sm_90")])
@pytest.mark.parametrize("layer", OF_BYTES)
def test_machine_code_of_bytes(layer, dtype, arch):
    counts = assert_machine_code(layer, dtype, arch)
    assert counts["IMMA"] and counts["LDSM"]


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "arch"),
    [("float32", "sm_90"), ("float16", "sm_80"), ("bfloat16", "sm_80"), ("bfloat16", "sm_90")],
)
@pytest.mark.parametrize("layer", CHOSEN)
def test_machine_code_of_the_others(layer, dtype, arch):
    assert_machine_code(layer, dtype, arch)


def assert_machine_code(layer, dtype, arch):
    """No spills, no arrays in local memory; tensor cores and wide accesses where they belong.

    Returns what instructions there are.
    """
    option = option_of(OPERATORS[layer], dtype, target(arch))
    assert option.kernel == OPERATORS[layer].kernel
    func, rule = scheduled(option, target(arch))
    assert rule not in {r.name for r in cuda.REST}
    known = WIDE if dtype == "float32" else {**WIDE_HALF, **WIDE_BYTES}
    wide = known[option.kernel]
    cubin = nvrtc.compile_source(source(func, arch), arch)
    most, _ = LISTED.get((layer, dtype, arch), (0, ""))
    for name, used in kernel_resources(cubin).items():
        assert used.stack <= most, f"{name} keeps {used.stack} bytes in local memory"
    counts = sum(instruction_counts(cubin).values(), Counter())
    assert all(counts[name] for name in wide), counts
    tensor_core = option.kernel in TENSOR_CORE and dtype != "float32"
    assert bool(counts["HMMA"] and counts["LDSM"]) == tensor_core
    return counts


def test_what_is_missing_is_named():
    rng = np.random.default_rng(0)
    c = Contraction((128,), 512, 256)
    found = options.sparse(c, Scan(integers(rng, c.matrix_shape, 0.7)), target())
    reasons = [o for o in found if isinstance(o, str)]
    assert any("no tiles of the matrix are empty" in reason for reason in reasons)
    assert any("padded banks" in reason for reason in reasons)


def test_small_matrices_have_no_blocks():
    c = Contraction((4,), 12, 8)
    found = list(options.block(c, Scan(np.ones(c.matrix_shape, "f4")), target()))
    assert found == ["block needs at least 16 x 16, found 8 x 12"]
