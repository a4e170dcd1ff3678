"""Integers of 8 and 16 bits in generated CUDA: copies, constants, and sums that wrap."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - registers operators
from tvm import s_tir, te, tirx

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc, target
from tvm_sparse.schedules.build import build_function
from tvm_sparse.schedules.cuda.narrow_integers import NarrowIntegers, narrow_integers
from tvm_sparse.testing import emulate

TARGET = "cuda:sm_80"


def steps(x, scale, zero):
    """What the bytes next to ``x`` mean."""
    q, args = torch.ops.quantized_decomposed, (scale, zero, 0, 255, torch.uint8)
    return q.dequantize_per_tensor(q.quantize_per_tensor(x, *args), *args)


class Product(nn.Module):
    """A product whose bytes are read in the kernel that makes them."""

    def forward(self, x):
        """Map ``(..., rows, columns)`` to ``(..., rows, rows)``."""
        return steps(steps(x, 0.25, 100) @ steps(x, 0.25, 100).transpose(-1, -2), 0.5, 120)


def computed(model, x):
    """What the model computes on a GPU, by the executed PTX; nothing must be wrong about it."""
    program = torch.export.export(model.eval(), (x,))
    library = ts.compile(program, target=TARGET, config=ts.Config(measure=False))
    emulation = emulate(library, x.numpy())
    assert not emulation.report.findings
    return emulation.outputs[0], program.module()(x).numpy()


@needs_nvrtc
@pytest.mark.filterwarnings("ignore::tvm_sparse.errors.WidenedBytesWarning")
@pytest.mark.parametrize("rows", [19, 20])
def test_bytes_that_nobody_stores_wrap(rows):
    """C adds up bytes in 32 bits: -3 steps and a zero point of 120 would be 373, not 117."""
    x = torch.randint(-2, 3, (1, 3, rows, 8)) * 0.5
    found, wanted = computed(Product(), x)
    np.testing.assert_array_equal(found, wanted)


class Padded(nn.Module):
    """Bytes with a border, which is what means zero."""

    def forward(self, x):
        """Map ``(batch, 16, rows, columns)`` to two more rows and columns."""
        return nn.functional.pad(steps(x, 0.25, 100), (1, 1, 1, 1))


@needs_nvrtc
def test_borders_of_bytes():
    found, wanted = computed(Padded(), torch.randint(-9, 9, (1, 16, 5, 6)) * 0.25)
    np.testing.assert_array_equal(found, wanted)


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_byte_for_all_lanes_that_is_read(dtype):
    x, border = te.placeholder((8, 64), dtype, "X"), te.placeholder((1,), "int32", "B")

    def value(i, j):
        return tirx.if_then_else(i < 4, x(i, j), tirx.Cast(dtype, border(0)))

    func = te.create_prim_func([x, border, te.compute((8, 64), value, "Y")])
    assert build_function(func, target("sm_80")) is not None


def test_sums_are_cut_to_their_bits():
    a = tirx.decl_buffer((4,), "uint8", "a")
    half = tirx.decl_buffer((4,), "float16", "h")
    stored = [
        tirx.BufferStore(a, a[0] + a[1], [2]),
        tirx.BufferStore(half, half[0] + half[1], [2]),
    ]
    func = tirx.PrimFunc([a, half], tirx.SeqStmt(stored))
    text = NarrowIntegers()(tvm.IRModule({"main": func})).script()
    assert 'T.Cast("uint8", T.Cast("int32", a[0]) + T.Cast("int32", a[1]))' in text
    assert "h[0] + h[1]" in text


@pytest.mark.parametrize(("byte", "word"), [(0, 0), (3, 0x03030303), (-1, -1)])
def test_constant_vectors_are_words(byte, word):
    a = tirx.decl_buffer((16,), "int8", "a")
    vector = tirx.Broadcast(tirx.const(byte, "int8"), 16)
    func = tirx.PrimFunc([a], tirx.BufferStore(a, vector, [tirx.Ramp(0, 1, 16)]))
    text = NarrowIntegers()(tvm.IRModule({"main": func})).script()
    assert f'T.reinterpret("int8x16", T.Broadcast({word}, 4))' in text


def test_the_passes_stay_until_the_last_one_leaves():
    names = ("InjectPTXAsyncCopy", "LowerAsyncDMA")

    def passes():
        return [getattr(s_tir.transform, name) for name in names]

    stock = passes()
    with narrow_integers():
        with narrow_integers():
            assert all(now is not before for now, before in zip(passes(), stock, strict=True))
        assert [made().info.name for made in passes()] == ["sequential"] * 2
    assert passes() == stock
