"""The table of element-wise operators: they exist, and NumPy's say what compiled ones say."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_sparse.passes
from tests.kernels import host
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE

KNOWN = {name: traits for name, traits in ELEMENTWISE.items() if traits.numpy is not None}
VALUES = np.float32([-3.5, -1.0, -0.25, 0.0, 0.5, 1.0, 2.75, 40.0])
OPERANDS = (VALUES, VALUES[::-1] + np.float32(0.125))


def _operands(count, x, y, condition):
    """Return the operands of an operator: a choice takes a condition before its two."""
    return (condition, x, y) if count == 3 else (x, y)[:count]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_relax_has_the_operator(name):
    assert tvm.ir.Op.get(f"relax.{name}")


@pytest.mark.parametrize("name", KNOWN)
def test_unknown_values_stay_unknown(name):
    operands = [np.float64([np.nan, 2.0])] * KNOWN[name].operands
    found = KNOWN[name].numpy(*operands)
    assert not np.isnan(found[1])
    assert np.isnan(found[0]) or name in ("zeros_like", "ones_like")


@pytest.fixture(scope="module")
def compiled():
    """What every operator that has a NumPy function computes, by TVM alone."""
    x, y = (relax.Var(name, relax.TensorType(VALUES.shape, "float32")) for name in "xy")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        results = []
        for name, traits in KNOWN.items():
            place = relax.op
            for part in name.split("."):
                place = getattr(place, part)
            condition = relax.op.greater(x, y)
            results.append(builder.emit(place(*_operands(traits.operands, x, y, condition))))
        builder.emit_func_output(relax.Tuple(results))
    machine = relax.VirtualMachine(tvm.compile(builder.get(), host()), tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(v) for v in OPERANDS))
    return {name: result.numpy() for name, result in zip(KNOWN, found, strict=True)}


@pytest.mark.parametrize("name", KNOWN)
def test_numpy_says_what_the_compiled_operator_says(name, compiled):
    traits = KNOWN[name]
    with np.errstate(all="ignore"):
        found = traits.numpy(*_operands(traits.operands, *OPERANDS, np.greater(*OPERANDS)))
    np.testing.assert_allclose(found, compiled[name], rtol=2e-6, atol=1e-7)


def test_no_pass_keeps_a_list_of_its_own():
    """Six of these names in one tuple, list, set or dictionary would be a list beside the table."""
    folder = Path(tvm_sparse.passes.__file__).parent
    for path in folder.rglob("*.py"):
        if path.stem == "elementwise":
            continue
        for display in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(display, ast.Tuple | ast.List | ast.Set | ast.Dict):
                constants = [n for n in ast.walk(display) if isinstance(n, ast.Constant)]
                named = {n.value for n in constants} & ELEMENTWISE.keys()
                assert len(named) < 6, f"{path.name} names {sorted(named)}"


def test_a_choice_by_what_is_unknown_is_unknown():
    choose = ELEMENTWISE["where"].numpy
    found = choose(np.array([0.0, 1.0, np.nan]), np.array([1.0, np.nan, 3.0]), np.zeros(3))
    np.testing.assert_array_equal(found, [0.0, np.nan, np.nan])
