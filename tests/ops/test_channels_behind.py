"""Few channels behind open or static lines, with borders, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tests.kernels import host
from tvm_sparse.ops.tensors.borders import Borders
from tvm_sparse.ops.tensors.channels_behind import channels_behind
from tvm_sparse.schedules.build import build_function


@pytest.mark.grid
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
@pytest.mark.parametrize("channels", [2, 3, 15])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("opened", [False, True])
def test_channels_are_last_and_borders_around(monkeypatch, threads, dtype, channels, rank, opened):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    widths = [2, 0, 1][:rank], [1, 3, 0][:rank]
    names = [tirx.Var(name, "int64") for name in "nabc"[: rank + 1]]
    built = _built((names[0], channels, *names[1:]), widths, dtype) if opened else None
    for wide in (1, 15, 16, 17, 37):
        shape = (2, channels, *[5, 4][: rank - 1], wide)
        values = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
        around = [(0, 0), *zip(*widths, strict=True), (0, 0)]
        expected = np.pad(np.moveaxis(values, 1, -1), around, constant_values=7)
        out = tvm.runtime.tensor(np.full(expected.shape, 77, dtype))
        (built or _built(shape, widths, dtype))["main"](tvm.runtime.tensor(values), out)
        np.testing.assert_array_equal(out.numpy(), expected)


def _built(shape, widths, dtype):
    x = te.placeholder(shape, dtype, "X")
    before, after = widths
    borders = Borders(tuple(shape[2:]), tuple(before), tuple(after), 7)
    func = te.create_prim_func([x, channels_behind(x, shape, borders)])
    return build_function(func, host())
