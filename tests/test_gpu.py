"""Operators and networks on an NVIDIA GPU. What runs without one is in emulation/."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import tvm_sparse as ts
from benchmarks.gpu.executed import blank, case
from benchmarks.gpu.operators import OPERATORS, option_of
from tests.emulation.networks import BOUNDS, NETWORKS, network
from tvm_sparse.base.targets import parse_target
from tvm_sparse.schedules.build import build_function
from tvm_sparse_runtime import load

pytestmark = pytest.mark.gpu

OPERATORS_IN_DTYPES = [(layer, d) for layer, operator in OPERATORS.items() for d in operator.dtypes]


@pytest.mark.parametrize(("layer", "dtype"), OPERATORS_IN_DTYPES)
def test_operators_are_exact_on_small_integers(layer, dtype):
    target, operator = parse_target("cuda").target, OPERATORS[layer]
    option = option_of(operator, dtype, target)
    operands, expected = case(operator, option.format, dtype)
    module = build_function(option.build(), target)
    held = [tvm.runtime.tensor(np.ascontiguousarray(a), tvm.cuda()) for a in operands]
    out = tvm.runtime.tensor(blank(expected.shape, operands[0].dtype), tvm.cuda())
    module["main"](*held, out)
    np.testing.assert_array_equal(out.numpy(), expected.astype(str(out.dtype)))


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_equal_pytorch(name, dtype, tmp_path):
    model, x, wanted = network(name)
    x = x.to(dtype)
    library = ts.compile(model.to(dtype), (x,), target="cuda")
    bound = BOUNDS[dtype]
    got = library(x.cuda()).cpu().numpy()
    np.testing.assert_allclose(got.astype("f4"), wanted, rtol=bound, atol=bound)
    again = load(library.export(tmp_path / "a.tvms"))(x.cuda()).cpu().numpy()
    np.testing.assert_array_equal(again, got)
