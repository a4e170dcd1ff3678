"""The register transposition: lane i of column j is lane j of row i."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tests.kernels import host, run
from tvm_sparse.ops.transpose import LANES, transpose_tile


def transposition() -> tirx.PrimFunc:
    tile = [LANES, LANES]
    lanes = tirx.Ramp(0, 1, LANES)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        x, y = T.arg("X", T.Buffer(tile, "float32")), T.arg("Y", T.Buffer(tile, "float32"))
        with T.sblock("root"), T.sblock("turn"):
            for i, column in enumerate(transpose_tile([x[i, lanes] for i in range(LANES)])):
                T.buffer_store(y, column, [i, lanes])
    return builder.get()


@pytest.mark.parametrize("cpu", ["", "haswell", "x86-64"])
def test_transposition(cpu):
    tile = np.arange(LANES * LANES, dtype=np.float32).reshape(LANES, LANES)
    got = run(transposition(), [tile], tile.shape, host(cpu))
    assert (got == tile.T).all()
