"""Two operators in one function: the same numbers, nothing between them is an argument."""

from __future__ import annotations

import numpy as np
from tvm import relax

from tests.kernels import host, integers, run
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense
from tvm_sparse.passes.graph.merge import merge

FIRST, SECOND = Contraction((6,), 20, 16), Contraction((6,), 16, 24)


def test_same_numbers():
    formats = [DenseFormat(*c.matrix_shape) for c in (FIRST, SECOND)]
    functions = [dense(c, s, host()) for c, s in zip((FIRST, SECOND), formats, strict=True)]

    def between(builder, x, operands):
        return builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(x, operands[0]))))

    merged = merge(*functions, between, (relax.TensorType((16,), "float32"),))
    rng = np.random.default_rng(0)
    x, bias = integers(rng, (6, 20)), integers(rng, (16,))
    weights = [integers(rng, c.matrix_shape) for c in (FIRST, SECOND)]
    arrays = [s.encode(w)["values"] for s, w in zip(formats, weights, strict=True)]
    assert len(merged.params) == 5
    out = run(merged, [x, arrays[0], bias, arrays[1]], (6, 24), host())
    inner = np.maximum(reference(FIRST, x, weights[0]) + bias, 0)
    assert np.array_equal(out, reference(SECOND, inner.astype("float32"), weights[1]))


def test_nothing_between():
    functions = [dense(c, DenseFormat(*c.matrix_shape), host()) for c in (FIRST, SECOND)]
    assert [len(merge(*functions).params), *(len(f.params) for f in functions)] == [4, 3, 3]
