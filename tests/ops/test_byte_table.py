"""Tables of bytes: every byte, any extent, every machine that this one can run."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te

from tests.kernels import host, run
from tvm_sparse.machine.registry import MACHINES, features_of
from tvm_sparse.ops.bytes.byte_table import byte_table

TABLE = np.random.default_rng(0).integers(0, 256, 256, np.uint8)
HERE = features_of(host())
RUNNABLE = [m for m in MACHINES if HERE.issuperset(m.features)]


@pytest.mark.grid
@pytest.mark.parametrize("machine", RUNNABLE, ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("dtype", "shape"), [("uint8", (1 << 18,)), ("int8", (1001,)), ("uint8", (3, 5, 7))]
)
def test_entries_of_all_bytes(machine, dtype, shape):
    x = np.resize(np.random.default_rng(1).permutation(256), shape).astype(np.uint8).view(dtype)
    tensor, table = te.placeholder(x.shape, dtype, "X"), te.placeholder((256,), "uint8", "T")
    func = te.create_prim_func([tensor, table, byte_table(tensor, table, machine, dtype)])
    got = run(func.with_attr("global_symbol", "main"), [x, TABLE], x.shape, host(), dtype)
    np.testing.assert_array_equal(got.view(np.uint8), TABLE[x.view(np.uint8)])
