import numpy as np
import pytest

from tests.cuda.kernels import executed, needs_nvrtc, target, typed
from tvm_sparse.ops.tensors import rows
from tvm_sparse.schedules.cuda.rows import RowsRule

EPSILON = 1e-5
SHAPES = [(2, 3, 16, 128), (5, 37), (6, 197), (2, 3072), (7, 16), (1, 5000)]
ALLOWED = {"float32": 1e-6, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Error, as a share of the largest result: that of one rounding, and of sums in fp32."""


def shifted(x):
    return x - x.max(-1, keepdims=True)


def log_softmax(x):
    return shifted(x) - np.log(np.exp(shifted(x)).sum(-1, keepdims=True))


def layer_norm(x, gamma, beta):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(
        x.var(-1, keepdims=True) + EPSILON
    ) * gamma + beta


CASES = [*((shape, "float32") for shape in SHAPES), ((5, 37), "float16"), ((5, 37), "bfloat16")]
WANTED = {
    "softmax": lambda x: np.exp(log_softmax(x)),
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
}


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("name", WANTED)
@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
def test_rows_are_reduced(emulator, shape, name, dtype):
    norm = name == "layer_norm"
    func = getattr(rows, name)(shape, dtype, *((EPSILON,) if norm else ()), together=True)
    schedule = RowsRule().apply(func, target(), tunable=False)
    rng = np.random.default_rng(0)
    shapes = (shape, *(((shape[-1],),) * 2 if norm else ()))
    operands = [typed(3 * rng.standard_normal(size), dtype) for size in shapes]
    scheduled = schedule.mod["main"].with_attr("global_symbol", "main")
    got = executed(emulator, scheduled, operands, shape, dtype)
    wanted = WANTED[name](*(operand.astype("f8") for operand in operands))
    assert abs(got - wanted).max() <= ALLOWED[dtype] * abs(wanted).max()
