"""Shapes that traces are told are those that PyTorch computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from tvm_sparse.frontends.program import known_shapes
from tvm_sparse.frontends.program.known_shapes import KnownShapes

aten = torch.ops.aten
LAYOUTS = {
    "contiguous": torch.randn(2, 4, 6, 8),
    "channels last": torch.randn(2, 4, 6, 8).to(memory_format=torch.channels_last),
    "turned": torch.randn(2, 4, 8, 6).transpose(2, 3),
}
NORMS = (aten._native_batch_norm_legit_no_training.default, aten.native_layer_norm.default)
ELEMENTWISE = [op for op in known_shapes._RESULTS if op not in NORMS]


def faked(mode: FakeTensorMode, x: torch.Tensor, opened: tuple[int, ...] = (0, 2, 3)) -> Any:
    kinds = [DimDynamic.DYNAMIC if a in opened else DimDynamic.STATIC for a in range(x.ndim)]
    return mode.from_tensor(x, symbolic_context=StatelessSymbolicContext(kinds))


def told(op: Any, x: torch.Tensor, *rest: Any, opened: tuple[int, ...] = (0, 2, 3)) -> list[Any]:
    """Return shapes, strides and numbers of results as told, and as PyTorch computes them."""
    found = []
    for context in (KnownShapes(), torch.no_grad()):
        mode = FakeTensorMode(shape_env=ShapeEnv())
        with mode, context:
            given = [faked(mode, r, ()) if isinstance(r, torch.Tensor) else r for r in rest]
            results = op(faked(mode, x, opened), *given)
        results = results if isinstance(results, tuple) else (results,)
        found.append([(str(r.shape), str(r.stride()), r.dtype, r.device) for r in results])
    return found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return whether each result that could be told was."""
    calls: list[bool] = []

    def wrapped(tell: Any) -> Any:
        def call(*args: Any) -> Any:
            result = tell(*args)
            calls.append(result is not NotImplemented)
            return result

        return call

    table = {op: wrapped(tell) for op, tell in known_shapes._RESULTS.items()}
    monkeypatch.setattr(known_shapes, "_RESULTS", table)
    return calls


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", ELEMENTWISE, ids=str)
def test_elementwise(op, layout, counted):
    ours, theirs = told(op, LAYOUTS[layout])
    assert ours == theirs
    assert counted[0] == (layout != "turned" or str(op).endswith("_.default"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_batch_norm(layout, dtype, counted):
    x, parameters = LAYOUTS[layout].to(dtype), [torch.ones(4, dtype=dtype)] * 4
    ours, theirs = told(NORMS[0], x, *parameters, 0.1, 1e-5)
    assert ours == theirs
    assert counted[0] == (layout != "turned")


def test_batch_norm_of_other_numbers_and_of_open_channels_is_computed(counted):
    x, parameters = LAYOUTS["contiguous"], [torch.ones(4)] * 4
    ours, theirs = told(NORMS[0], x.half(), *parameters, 0.1, 1e-5)
    assert ours == theirs
    ours, theirs = told(NORMS[0], x, *parameters, 0.1, 1e-5, opened=(0, 1))
    assert ours == theirs
    assert counted == [False, False]


@pytest.mark.parametrize("last", [(8,), (6, 8)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layer_norm(last, layout, counted):
    ours, theirs = told(
        NORMS[1], LAYOUTS[layout], list(last), torch.ones(last), None, 1e-5, opened=(0, 1)
    )
    assert ours == theirs
    assert counted[0] == (layout == "contiguous")


def test_a_layer_norm_of_open_extents_is_computed(counted):
    ours, theirs = told(NORMS[1], LAYOUTS["contiguous"], [8], None, None, 1e-5)
    assert ours == theirs
    assert not counted[0]


def test_whole_numbers_and_closed_shapes_are_computed(counted):
    told(aten.relu.default, torch.arange(6).reshape(2, 3), opened=(0,))
    told(aten.relu.default, LAYOUTS["contiguous"], opened=())
    assert counted == []


def test_nothing_is_told_outside():
    before = FakeTensorMode._dispatch_impl
    with KnownShapes():
        assert FakeTensorMode._dispatch_impl is not before
    assert FakeTensorMode._dispatch_impl is before
