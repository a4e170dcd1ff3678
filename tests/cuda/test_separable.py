"""Depthwise + pointwise kernels against the naive reference, and their machine code."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from tvm import relax

import tvm_sparse as ts
from tests.cuda.kernels import executed, needs_nvrtc, scheduled, source, target, typed
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.separable import SeparableTile, whole_images
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.passes.lower.fuse_depthwise import fused
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.instructions import instruction_counts
from tvm_sparse.schedules.cuda.resources import kernel_resources
from tvm_sparse.schedules.cuda.separable import SeparableRule
from tvm_sparse.selection.cuda.separable_options import SeparableChoice as Option
from tvm_sparse.selection.cuda.separable_options import separable, shared_bytes


def pair(batch, extent, channels, kernel, stride, features, shape, dtype="float32"):
    """A depthwise layer that pads its input, and a 1x1 layer behind it."""
    out = -(-extent // stride)
    first = Contraction(
        (batch, out, out),
        channels,
        channels,
        (kernel, kernel),
        (stride, stride),
        (1, 1),
        padded=(extent, extent),
        numerics=Numerics.uniform(dtype),
        borders=(kernel // 2, kernel // 2),
        depthwise=True,
    )
    ones = (1, 1)
    second = Contraction(
        (batch, out, out),
        channels,
        features,
        ones,
        ones,
        ones,
        padded=(out, out),
        numerics=first.numerics,
    )
    return Option(first, second, shape, 0.0)


def between(builder, x, operands):
    """A bias and ReLU6."""
    return builder.emit(relax.op.clip(builder.emit(relax.op.add(x, operands[0])), 0, 6))


def kernel_of(option):
    bias = relax.TensorType((option.first.features,), option.first.dtype)
    return fused(option, between, (bias,))


SCALAR = {
    "strips of rows": (
        2,
        14,
        48,
        3,
        1,
        40,
        SeparableTile(ThreadBlockTile(64, 48, 48), 2, 4, 8, 12),
    ),
    "stride 2, one image": (
        1,
        7,
        32,
        3,
        2,
        24,
        SeparableTile(ThreadBlockTile(32, 32, 16), 1, 4, 16, 8),
    ),
}
TENSOR_CORE = {
    "past the last image": (
        2,
        14,
        48,
        3,
        1,
        40,
        SeparableTile(ThreadBlockTile(64, 48, 48), 2, 4, 4, 3),
    ),
    "past the last channel": (
        2,
        14,
        40,
        5,
        2,
        40,
        SeparableTile(ThreadBlockTile(112, 48, 32), 7, 4, 1, 1),
    ),
    "blocks of features": (
        1,
        8,
        32,
        3,
        1,
        64,
        SeparableTile(ThreadBlockTile(32, 32, 32), 4, 4, 1, 2),
    ),
}


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("case", [*SCALAR, *TENSOR_CORE])
def test_equals_the_reference(case, emulator):
    dtype = "float32" if case in SCALAR else "float16"
    option = pair(*{**SCALAR, **TENSOR_CORE}[case], dtype)
    func = scheduled(kernel_of(option), SeparableRule())
    rng, (first, second) = np.random.default_rng(0), (option.first, option.second)
    x, bias = integers(rng, first.input_shape), integers(rng, (first.features,))
    kernels = [integers(rng, c.matrix_shape, 0.3) for c in (first, second)]
    taps, values = (
        format.encode(typed(kernel, dtype))["values"]
        for format, kernel in zip(option.formats, kernels, strict=True)
    )
    arrays = [typed(x, dtype), taps, typed(bias, dtype), values]
    out = executed(emulator, func, arrays, second.output_shape, dtype)
    inner = np.clip(reference(first, x, kernels[0]) + bias, 0, 6)
    assert np.array_equal(out, reference(second, inner.astype("float32"), kernels[1]))


@needs_nvrtc
def test_what_is_between_is_never_stored():
    """Sums of taps go to shared memory; what goes to global memory is the product alone."""
    shape = SeparableTile(ThreadBlockTile(64, 32, 64), 4, 4, 4, 2)
    func = scheduled(kernel_of(pair(8, 28, 128, 3, 1, 32, shape, "float16")), SeparableRule())
    cubin = nvrtc.compile_source(source(func), "sm_90")
    (used,), (counts,) = kernel_resources(cubin).values(), instruction_counts(cubin).values()
    assert used.stack == 0
    assert used.registers <= 128
    assert counts["HMMA"] == 2 * 4
    assert counts["LDG.128"] >= 64 * 32 // 8 // 256
    assert counts["LDG.64"] == 3 * 6 + 9 + 1  # the window of a strip, its taps, its bias
    assert not counts["LDGSTS.128"]
    assert counts["STS.64"]
    stores = {name: n for name, n in counts.items() if name.startswith("STG")}
    assert stores == {"STG.128": 64 * 32 // 8 // 256}


RUN = """
import json, numpy, tvm_sparse_runtime as rt
library = rt.load({path!r})
print(json.dumps(list(library(numpy.ones((9, 16, 14, 14), "float32")).shape)))
"""


@needs_nvrtc
def test_a_driver_would_launch_it(tmp_path, fake_cuda):
    layers = [nn.Conv2d(16, 16, 3, 2, 1, groups=16), nn.SiLU(), nn.Conv2d(16, 32, 1)]
    model = nn.Sequential(*layers).eval()
    library = ts.compile(model, (torch.zeros(9, 16, 14, 14),), target="cuda:sm_90")
    assert fake_cuda.run(RUN.format(path=str(library.export(tmp_path / "a.tvms")))) == [9, 32, 7, 7]
    (one,) = {x for x in fake_cuda.launches() if "depthwise_pointwise" in x.kernel}
    option = pair(9, 14, 16, 3, 2, 32, None)
    shape = separable(option.first, option.second, target()).shape
    assert one.grid[0] == -(-9 * 7 * 7 // shape.tile.rows)
    assert one.block == (shape.across, shape.down, 1)
    assert 0 < one.shared <= shared_bytes(shape.tile, 4)


def test_images_of_the_last_tile():
    option = pair(*TENSOR_CORE["past the last image"])
    assert whole_images(option.second, option.shape.tile) == 3  # 448 pixels of 196 an image
    whole = dataclasses.replace(option.shape.tile, rows=196)
    assert whole_images(option.second, whole) == 2
