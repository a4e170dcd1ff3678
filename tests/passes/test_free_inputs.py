"""FreeInputs: kernels load inputs from anywhere; whatever else is done keeps one aligned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from tvm import relax, te, tirx

import tvm_sparse as ts
from tests.runtime.arrays import aligned
from tvm_sparse.passes.finish.free_inputs import FreeInputs
from tvm_sparse_runtime import load
from tvm_sparse_runtime.spec import ITEM_BYTES

SHAPE = (8, 16)
RNG = np.random.default_rng(0)
STORED_ONLY = ("uint16", "uint32", "uint64")
"""What PyTorch computes nothing with."""


def module(make, inputs=1):
    """Return ``make(builder, input, weight)`` as ``main``, with ``inputs`` inputs."""
    builder = relax.BlockBuilder()
    x, w = (relax.Var(name, relax.TensorType(SHAPE, "float32")) for name in "xw")
    with builder.function("main", [x, w], attrs={"num_input": inputs}):
        with builder.dataflow():
            output = builder.emit_output(make(builder, x, w))
        builder.emit_func_output(output)
    return builder.finalize()


def freed(mod):
    """Return which inputs may begin anywhere, and the module."""
    found = []
    after = FreeInputs(found.append)(mod)
    return found[0], after


def added(builder, *tensors):
    return builder.call_te(lambda a, b: te.compute(a.shape, lambda *i: a(*i) + b(*i)), *tensors)


def alignments(mod):
    (func,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    return [param.data_alignment for param in func.params]


def test_elements_are_loaded_from_anywhere():
    found, after = freed(module(added))
    assert found == (0,)
    assert alignments(after) == [4, 64, 64]
    assert freed(module(added, inputs=2))[0] == (0, 1)
    assert freed(module(lambda b, x, w: added(b, x, x)))[0] == (0,)


def summed(builder, x, _):
    k = te.reduce_axis((0, SHAPE[1]), "k")
    return builder.call_te(lambda a: te.compute((SHAPE[0],), lambda i: te.sum(a[i, k], axis=k)), x)


def handed_on(builder, *tensors):
    def emit(inputs, outputs):
        return tirx.Evaluate(tirx.call_packed("function", *inputs, *outputs))

    return builder.call_te(lambda *t: te.extern(t[0].shape, t, emit, dtype="float32"), *tensors)


def with_address(builder, *tensors):
    def emit(inputs, outputs):
        place = tirx.call_extern("int32", "function", tirx.address_of(inputs[0][0, 0]))
        return tirx.BufferStore(outputs[0], tirx.Cast("float32", place), [0, 0])

    return builder.call_te(lambda *t: te.extern(t[0].shape, t, emit, dtype="float32"), *tensors)


@pytest.mark.parametrize(
    "make",
    [
        summed,
        handed_on,
        with_address,
        lambda builder, x, w: x,
        lambda builder, x, w: builder.emit(relax.op.reshape(x, (128,))),
        lambda builder, x, w: added(builder, builder.emit(relax.op.add(x, w)), x),
        lambda builder, x, w: added(builder, w, w),
    ],
    ids=["reduced", "passed on", "address", "returned", "viewed", "other use", "unused"],
)
def test_what_else_is_done_with_an_input_keeps_it_aligned(make):
    before = module(make)
    found, after = freed(before)
    assert found == ()
    tvm.ir.assert_structural_equal(before, after)


class Scaled(nn.Module):
    """An element-wise kernel, then one that reads the other input too."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 32)

    def forward(self, x, y):
        return self.linear(torch.sigmoid(x * 3)) + torch.tanh(self.linear(y))


class Plain(nn.Module):
    """One element-wise kernel for any type."""

    def forward(self, x):
        return torch.cat([x, x], 1) if x.dtype == torch.bool else x * 2 + 1


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [d for d in ITEM_BYTES if d not in STORED_ONLY])
def test_every_dtype(dtype):
    x = (torch.arange(64 * 96) % 7).reshape(64, 96).to(getattr(torch, dtype))
    model, size = Plain(), x.element_size()
    compiled = ts.compile(model, (x,), config=ts.Config(measure=False, tuned=False))
    assert compiled.unaligned == (0,)
    for elements in (1, 3, 5):
        bytes_ = torch.from_numpy(aligned(x.nbytes, "uint8", elements * size))
        moved = bytes_.view(x.dtype).view(x.shape).copy_(x)
        assert torch.equal(compiled(moved), model(x))


@pytest.fixture(scope="module")
def library():
    torch.manual_seed(0)
    model, pair = Scaled().eval(), (torch.randn(16, 64), torch.randn(16, 64))
    return model, ts.compile(model, pair, config=ts.Config(measure=False, tuned=False))


@pytest.mark.parametrize("offset", [0, 4, 8, 60])
def test_results_are_the_same_wherever_an_input_begins(library, tmp_path, offset):
    model, compiled = library
    assert compiled.unaligned == (0,)
    loaded = load(compiled.export(tmp_path / "a.tvms"))
    assert loaded.manifest.unaligned == (0,)
    pair = [aligned(16 * 64, "float32", offset).reshape(16, 64) for _ in range(2)]
    for x in pair:
        x[...] = RNG.standard_normal(x.shape)
    tensors = [torch.from_numpy(x) for x in pair]
    expected = model(*tensors).detach().numpy()
    for program in (compiled, loaded):
        np.testing.assert_allclose(program(*pair), expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(program(*tensors).numpy(), expected, rtol=1e-5, atol=1e-5)
