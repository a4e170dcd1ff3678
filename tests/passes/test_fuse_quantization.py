"""FuseQuantization: what is recognised, what moves, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.frontends.running import run
from tests.passes.modules import operators
from tvm_sparse.frontends.program.exported import from_exported
from tvm_sparse.passes.bytes.fuse_quantization import FuseQuantization
from tvm_sparse.passes.graph.rewrite import op_name
from tvm_sparse.passes.pipeline import canonicalise

Q = torch.ops.quantized_decomposed


def quantized(x, scale=0.02, zero=7, least=0, most=255, dtype=torch.uint8):
    return Q.quantize_per_tensor(x, scale, zero, least, most, dtype)


def meant(x, scale=0.02, zero=7, least=0, most=255, dtype=torch.uint8):
    return Q.dequantize_per_tensor(x, scale, zero, least, most, dtype)


def imported(function, *inputs):
    """Return the model of ``function``, and the operators that the pass leaves of it."""
    module = nn.Module()
    module.forward = function
    model = from_exported(torch.export.export(module, inputs))
    return model, operators(lowered(model))


def lowered(model):
    mod = model.module
    for step in [*canonicalise(model.weights, len(model.inputs)), FuseQuantization()]:
        mod = step(mod)
    return mod


def test_both_are_recognised():
    x = torch.randn(3, 40)
    model, found = imported(lambda x: meant(quantized(x)), x)
    assert found == {"multiply": 1, "quantize": 1, "dequantize": 1}
    torch.testing.assert_close(torch.from_numpy(run(model, x)[0]), meant(quantized(x)))


@pytest.mark.parametrize(
    "limits", [(0, 127, torch.uint8), (-127, 127, torch.int8), (-128, 127, torch.int8)]
)
def test_narrow_ranges_stay_narrow(limits):
    x = torch.linspace(-9, 9, 61)
    model, found = imported(lambda x: quantized(x, 0.02, 7, *limits), x)
    assert found["quantize"] == 1
    np.testing.assert_array_equal(run(model, x)[0], quantized(x, 0.02, 7, *limits).numpy())


def test_bytes_move_instead_of_floats():
    x = torch.randint(0, 256, (1, 16, 8, 8), dtype=torch.uint8)

    def function(q):
        y = torch.nn.functional.max_pool2d(meant(q), 3, 2, 1)
        return quantized(y.permute(0, 2, 3, 1).reshape(1, -1)[:, 8:200])

    model, found = imported(function, x)
    assert not {"quantize", "dequantize", "multiply"} & set(found)
    np.testing.assert_array_equal(run(model, x)[0], function(x).numpy())


def test_data_are_quantized_before_they_move():
    x = torch.randn(1, 16, 8, 8)

    def function(x):
        y = torch.nn.functional.max_pool2d(torch.relu(x), 3, 2, 1)
        return quantized(y.permute(0, 2, 3, 1))

    model, found = imported(function, x)
    assert {"quantize", "nn.max_pool2d", "permute_dims"} <= set(found)
    mod = lowered(model)
    values = [binding.value for binding in mod["main"].body.blocks[0].bindings]
    order = [op_name(value) for value in values]
    assert order.index("quantize") < order.index("nn.max_pool2d")
    np.testing.assert_array_equal(run(model, x)[0], function(x).numpy())


def test_floats_that_another_operator_reads_are_quantized_where_they_were():
    x = torch.randn(1, 16, 8, 8)

    def function(x):
        y = torch.nn.functional.max_pool2d(torch.relu(x), 2)
        return quantized(y), y + 1

    model, found = imported(function, x)
    assert found["nn.max_pool2d"] == 1
    got = run(model, x)
    for result, expected in zip(got, function(x), strict=True):
        np.testing.assert_array_equal(result, expected.numpy())


def test_pieces_are_joined_where_they_mean_the_same():
    x = torch.randint(0, 256, (2, 8, 4), dtype=torch.uint8)
    same = imported(lambda q: quantized(torch.cat([meant(q), meant(q)], 1)), x)
    assert set(same[1]) == {"concat"}

    def differ(q):
        return quantized(torch.cat([meant(q), meant(q, 0.03)], 1))

    model, found = imported(differ, x)
    assert found["quantize"] == 1
    got, expected = run(model, x)[0].astype(int), differ(x).numpy().astype(int)
    steps = (x.numpy().astype(int) - 7) * 0.03 / 0.02  # of the second piece
    ties = np.abs(steps % 1 - 0.5) < 1e-6
    np.testing.assert_array_equal(got[:, :8], expected[:, :8])
    np.testing.assert_array_equal(got[:, 8:][~ties], expected[:, 8:][~ties])
    assert np.abs(got - expected).max() <= 1


def test_other_scales_and_zero_points_are_quantized_again():
    x = torch.arange(256, dtype=torch.uint8)
    for scale, zero in ((0.03, 7), (0.02, 8)):
        model, found = imported(lambda q: quantized(meant(q), scale, zero), x)
        assert found["quantize"] == 1
        np.testing.assert_array_equal(run(model, x)[0], quantized(meant(x), scale, zero).numpy())


def test_casts_that_do_not_saturate_are_no_quantization():
    x = torch.randn(20) * 50
    model, found = imported(lambda x: torch.round(x).clamp(0, 200).to(torch.int32), x)
    assert "quantize" not in found
    np.testing.assert_array_equal(run(model, x)[0], torch.round(x).clamp(0, 200).int().numpy())
