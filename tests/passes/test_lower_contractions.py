"""LowerContractions: what products of activations read and write in place, in compiled networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from tvm import relax

import tvm_sparse as ts
from tests.kernels import host
from tests.passes.modules import evaluate, operators
from tvm_sparse.passes.lower.lower_contractions import LowerContractions
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions


class Attention(nn.Module):
    """Scores of rows with rows, of which ``cut`` makes two of one tensor (heads, 3, rows, 24)."""

    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def forward(self, x):
        query, key = self.cut(x)
        return functional.softmax(query @ key.transpose(-1, -2), -1)


CUTS = {
    "select": lambda x: (x[:, 0], x[:, -1]),
    "slice": lambda x: (x[:, 0, :, 8:], x[:, 2, 3:, -16:]),
    "clamped": lambda x: (x[:, 1, -1000:, :4], x[:, 1, :, :4]),
    "stepped": lambda x: (x[:, 0, ::2], x[:, 1, :, :]),
}


@pytest.mark.grid
@pytest.mark.parametrize("cut", CUTS)
def test_slices_are_read_in_place(cut):
    model = Attention(CUTS[cut]).eval()
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 19, 24)).astype("float32"))
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-6)
    kernels = [kernel.function for kernel in library.kernels]
    assert len(kernels) == (3 if cut == "stepped" else 2), kernels


class Mixed(nn.Module):
    """A product of two activations whose result ``use`` lays out, as attention merges heads."""

    def __init__(self, use):
        super().__init__()
        self.use = use

    def forward(self, a, b):
        return self.use(a @ b)


def merge(y):
    """Return ``(batch, heads, rows, width)`` as ``(batch, rows, heads * width)``."""
    return y.transpose(1, 2).flatten(2)


USES = {
    "merged": (merge, 1),
    "rows first": (lambda y: y.permute(2, 0, 1, 3).reshape(-1, 72), 1),
    "split": (lambda y: y.unflatten(-1, (2, 12)) + 1, 1),
    "enlarged": (lambda y: functional.pad(merge(y), (8, 8)), 2),
    "epilogue": (lambda y: functional.relu(merge(y) + 1), 1),
    "epilogue first": (lambda y: merge(y + 1), 2),
    "read twice": (lambda y: (merge(y), y + 1), 3),
    "between read twice": (lambda y: (merge(y), y.transpose(1, 2) + 1), 3),
    "transposed": (lambda y: y.transpose(2, 3) + 1, 2),
}


@pytest.mark.grid
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("use", USES)
def test_results_are_written_where_their_only_reader_puts_them(use, threads, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    function, count = USES[use]
    rng = np.random.default_rng(0)
    shapes = (2, 3, 197, 64), (2, 3, 64, 24)
    a, b = (torch.from_numpy(rng.integers(-4, 5, s).astype("float32")) for s in shapes)
    model = Mixed(function).eval()
    library = ts.compile(model, (a, b), config=ts.Config(measure=False))
    torch.testing.assert_close(library(a, b), model(a, b), rtol=0, atol=0)
    kernels = [kernel.function for kernel in library.kernels]
    assert len(kernels) == count, kernels


def test_bfloat16_is_multiplied_as_such():
    """Sums of small integers are exact, so rounding them once leaves one right result."""
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Conv1d(1, 32, 3)).eval().bfloat16()
    x = torch.randint(-4, 5, (1, 64)).bfloat16()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randint(-1, 2, parameter.shape))
        model[0].weight[:, :16] = 0
    config = ts.Config(measure=False, force={"0": "balanced"})
    library = ts.compile(model, (x,), config=config)
    assert next(iter(library.decisions)).chosen == "balanced"
    torch.testing.assert_close(library(x), model(x), rtol=0.01, atol=0.02)


def products(left, right):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(left, "int8"))
    y = relax.Var("y", relax.TensorType(right, "int8")) if isinstance(right, tuple) else None
    with builder.function("main", [x] if y is None else [x, y]):
        with builder.dataflow():
            other = relax.const(right) if y is None else y
            product = relax.op.matmul(x, other, out_dtype="int32")
            out = builder.emit_output(builder.emit(product))
        builder.emit_func_output(out)
    return builder.finalize()


def lowered(module):
    chooser = Chooser(host("x86-64"), ts.Config(measure=False), Decisions())
    return LowerContractions(chooser)(module), chooser.decisions


def test_integers_with_a_constant_weight_are_ours():
    rng = np.random.default_rng(0)
    x, weight = (rng.integers(-128, 128, shape, np.int8) for shape in ((5, 64), (64, 37)))
    module, decisions = lowered(products(x.shape, weight))
    assert [d.chosen for d in decisions] == ["dense"]
    assert "matmul" not in operators(module)
    expected = x.astype(np.int64) @ weight.astype(np.int64)
    np.testing.assert_array_equal(evaluate(module, x), expected)


def test_integers_of_two_activations_are_ours():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape, np.int8) for shape in ((4, 16), (16, 8)))
    module, decisions = lowered(products(a.shape, b.shape))
    assert not [*decisions]
    assert "matmul" not in operators(module)
    expected = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(evaluate(module, a, b), expected)


def test_a_vector_is_a_row():
    model, x = nn.Linear(48, 32), torch.randn(48)
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    torch.testing.assert_close(library(x), model(x).detach(), rtol=1e-5, atol=1e-6)
    assert [(k.layer, k.rule) for k in library.kernels if k.contraction] == [
        ("weight", "Contraction")
    ]
