"""Products with packed weights, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager
from tests.frontends.onnx.microsoft.running import (
    RNG,
    assert_same,
    by_onnxruntime,
    normal,
    one_node,
)
from tvm_sparse.inspection.explain import advise


def _packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Return rows of numbers as bytes, the first numbers in the lowest bits."""
    each = 8 // bits
    groups = numbers.reshape(*numbers.shape[:-1], -1, each).astype(np.uint32)
    return (groups << np.arange(0, 8, bits, dtype=np.uint32)).sum(-1).astype(np.uint8)


def _inputs(bits, columns, rows, block, zeros):
    blocks = -(-columns // block)
    numbers = RNG.integers(0, 1 << bits, (rows, blocks, block))
    inputs = [normal(2, 3, columns), _packed(numbers, bits)]
    inputs.append(RNG.uniform(0.01, 0.1, (rows, blocks)).astype(np.float32))
    if zeros == "packed":
        padded = -(-blocks * bits // 8) * 8 // bits
        inputs.append(_packed(RNG.integers(0, 1 << bits, (rows, padded)), bits))
    elif zeros == "floats":
        inputs.append(RNG.integers(0, 1 << bits, (rows, blocks)).astype(np.float32))
    return inputs


@pytest.mark.parametrize(
    ("bits", "zeros"), [(n, z) for n in (2, 4, 8) for z in ("", "packed", "floats")][:-1]
)
@pytest.mark.parametrize("columns", [64, 40])
@pytest.mark.parametrize("bias", [False, True])
def test_weights_are_unpacked(bits, columns, zeros, bias):
    inputs = _inputs(bits, columns, 5, 16, zeros)
    inputs += [*[None] * (5 - len(inputs)), normal(5)] if bias else []
    options = {"K": columns, "N": 5, "bits": bits, "block_size": 16}
    assert_same("MatMulNBits", inputs, atol=1e-4, constant=range(1, 6), **options)


@pytest.mark.grid
@pytest.mark.parametrize("bits", [4, 8])
def test_reports_say_that_they_are_right_and_not_fast(bits, tmp_path):
    inputs = _inputs(bits, 64, 32, 16, "")
    options = {"K": 64, "N": 32, "block_size": 16, **({} if bits == 4 else {"bits": bits})}
    path = tmp_path / "model.onnx"
    onnx.save(one_node("MatMulNBits", inputs, constant=range(1, 3), **options), path)
    phrase = f"weights of {bits} bits, unpacked when compiled: right, but no faster than wider ones"
    (row,) = ts.inspect(path).rows
    assert row.note == phrase
    model, config = ts.load(path), ts.Config(measure=False)
    (advice,) = advise(model, ts.compile(model, config=config), config)
    assert advice.reason.startswith(phrase + "; ")


def test_what_is_refused():
    inputs = _inputs(4, 64, 5, 16, "")
    options = {"K": 64, "N": 5, "block_size": 16}
    for more, reason in (
        ({"bits": 3}, "weights of 3 bits"),
        ({"weight_prepacked": 1}, "its weight is reordered"),
    ):
        with pytest.raises(ts.UnsupportedError, match=reason):
            eager(one_node("MatMulNBits", inputs, **{"bits": 4, **options, **more}), *inputs)
    with pytest.raises(ts.InputError, match=r"packed weights of shape \[5, 4, 8\]"):
        eager(one_node("MatMulNBits", inputs, **{**options, "K": 32}, bits=4), *inputs)


@pytest.mark.grid
@pytest.mark.parametrize("bits", [4, 8])
def test_what_means_zero_is_pruned(bits, tmp_path):
    middle = 1 << (bits - 1)
    numbers = RNG.integers(1, middle, (32, 4, 16))
    order = RNG.random(numbers.shape).argsort(-1)
    np.put_along_axis(numbers, order[..., :12], middle, -1)
    inputs = [normal(4, 64), _packed(numbers, bits)]
    inputs.append(RNG.uniform(0.01, 0.1, (32, 4)).astype(np.float32))
    options = {"K": 64, "N": 32, "bits": bits, "block_size": 16}
    made = one_node("MatMulNBits", inputs, constant=[1, 2], **options)
    (output,) = made.graph.output
    kind = onnx.TensorProto.FLOAT
    output.CopyFrom(onnx.helper.make_tensor_value_info(output.name, kind, [4, 32]))
    path = tmp_path / "m.onnx"
    onnx.save(made, path)
    (row,) = ts.inspect(path).rows
    assert (row.layer, row.pattern) == ("i1", "balanced 4 of 16")
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False))
    assert [decision.chosen for decision in library.decisions] == ["balanced"]
    (expected,) = by_onnxruntime(made, inputs[:1])
    np.testing.assert_allclose(library(inputs[0]), expected, rtol=1e-4, atol=1e-5)
