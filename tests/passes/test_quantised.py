"""Quantised layers in a module: one kernel each, and the values of NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from tests.integers import as_integers, bytes_of, sparse_bytes
from tests.kernels import host
from tvm_sparse.config import Config
from tvm_sparse.errors import InputError
from tvm_sparse.memory import argument_of
from tvm_sparse.ops.contraction import Contraction, reference
from tvm_sparse.ops.quantise import Scale
from tvm_sparse.passes.pipeline import finalise, lower, schedule
from tvm_sparse.passes.quantised import Epilogue, quantised_layer
from tvm_sparse.schedules.build import build_context
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions
from tvm_sparse.selection.layer import Layer

LINEAR = as_integers(Contraction((5,), 64, 37), "uint8", 130)
RNG = np.random.default_rng(0)
FACTORS = RNG.uniform(1e-4, 3e-4, 37).astype(np.float32)
BIAS = RNG.standard_normal(37, np.float32)


def compiled(c, matrix, epilogue, *others, storage=None, dtype=None):
    """Return the kernels of a layer and a function that runs it on ``x`` and ``others``."""
    weight = matrix.reshape(c.features, *c.taps, -1)
    weight = np.ascontiguousarray(np.moveaxis(weight, -1, 1)) if c.taps else matrix
    config = Config(measure=False, force={"*": storage} if storage else {})
    chooser = Chooser(host(), config, Decisions())
    builder = relax.BlockBuilder()
    shape = [tirx.Var("n", "int64") if not isinstance(e, int) else e for e in c.input_shape]
    x = relax.Var("x", relax.TensorType(shape, dtype or c.dtype))
    more = [
        relax.Var(f"y{i}", relax.TensorType(o.shape, o.dtype.name)) for i, o in enumerate(others)
    ]
    with builder.function("main", [x, *more]):
        with builder.dataflow():
            layer = Layer("fc", "linear", c, weight)
            result = quantised_layer(builder, chooser, layer, x, epilogue(*more))
            out = builder.emit_output(result)
        builder.emit_func_output(out)
    packed = {}
    passes = [*lower(chooser), *schedule(host(), packed)]
    with host():
        module = tvm.transform.Sequential(passes)(builder.finalize())
    kernels = [f for _, f in module.functions_items() if isinstance(f, tirx.PrimFunc)]
    with build_context(host()):
        done = tvm.transform.Sequential(finalise(host()))(module)
        machine = relax.VirtualMachine(tvm.compile(done, host(), relax_pipeline=None), tvm.cpu())
    weights = [argument_of(value) for value in packed.values()]
    return kernels, lambda *a: machine["main"](*map(tvm.runtime.tensor, a), *weights).numpy()


def saturated(steps, scale):
    low, high = scale.limits
    return np.clip(np.rint(steps) + scale.zero_point, low, high)


def assert_bytes(got, steps, scale):
    """Check bytes against exact steps: where these are next to a half, either side will do."""
    near = np.abs(steps - np.floor(steps) - 0.5) < 1e-3
    expected = saturated(steps, scale)
    assert got.dtype == scale.dtype
    assert (np.abs(got.astype(int) - expected) <= near).all()
    assert near.mean() < 0.05


@pytest.mark.parametrize("storage", ["dense", "balanced"])
@pytest.mark.parametrize("output", [Scale("uint8", 0.03, 128), Scale("int8", 0.011, -3)])
def test_a_layer_is_one_kernel(storage, output):
    matrix = sparse_bytes(RNG, LINEAR.matrix_shape, 0.8)

    def epilogue():
        return Epilogue(FACTORS, BIAS, output=output)

    kernels, run = compiled(LINEAR, matrix, epilogue, storage=storage)
    assert len(kernels) == 1
    x = bytes_of(RNG, LINEAR)
    steps = (reference(LINEAR, x, matrix) * FACTORS + BIAS) / output.scale
    assert_bytes(run(x), steps, output)


def test_results_saturate_at_both_ends():
    matrix = np.full(LINEAR.matrix_shape, 127, np.int8)
    output = Scale("uint8", 1e-3, 7)
    _, run = compiled(LINEAR, matrix, lambda: Epilogue(FACTORS, output=output), storage="dense")
    assert (run(np.zeros(LINEAR.input_shape, np.uint8)) == 0).all()
    assert (run(np.full(LINEAR.input_shape, 255, np.uint8)) == 255).all()


def test_halves_go_to_the_even_byte():
    c = as_integers(Contraction((1,), 4, 16))
    matrix = np.zeros((16, 4), np.int8)
    matrix[:, 0] = np.arange(16) - 5
    output = Scale("int8", 1.0)
    _, run = compiled(c, matrix, lambda: Epilogue(np.full(16, 0.5), output=output), storage="dense")
    got = run(np.array([[1, 0, 0, 0]], np.uint8))
    np.testing.assert_array_equal(got[0], np.rint((np.arange(16) - 5) / 2))


def test_residual_and_activation_are_in_the_same_kernel():
    matrix = sparse_bytes(RNG, LINEAR.matrix_shape, 0.5)
    means, output = Scale("uint8", 0.02, 100), Scale("uint8", 0.03, 0)
    other = RNG.integers(0, 256, LINEAR.output_shape, np.uint8)
    kernels, run = compiled(
        LINEAR,
        matrix,
        lambda y: Epilogue(FACTORS, BIAS, None, (y, means), relax.op.nn.relu, output),
        other,
    )
    assert len(kernels) == 1
    x = bytes_of(RNG, LINEAR)
    value = reference(LINEAR, x, matrix) * FACTORS + BIAS + (other.astype(float) - 100) * 0.02
    assert_bytes(run(x, other), np.maximum(value, 0) / 0.03, output)


def test_rows_have_scales_of_their_own_and_floats_may_leave():
    matrix = sparse_bytes(RNG, LINEAR.matrix_shape, 0.5)
    scales = RNG.uniform(0.5, 2, (5, 1)).astype(np.float32)
    kernels, run = compiled(LINEAR, matrix, lambda y: Epilogue(FACTORS, rows=y), scales)
    assert len(kernels) == 1
    x = bytes_of(RNG, LINEAR)
    np.testing.assert_allclose(
        run(x, scales), reference(LINEAR, x, matrix) * FACTORS * scales, rtol=1e-6, atol=1e-6
    )


def test_convolutions():
    c = as_integers(Contraction((1, 4, 4), 32, 37, (3, 3), (2, 2), (1, 1), (9, 9)), "int8", -20)
    matrix, output = sparse_bytes(RNG, c.matrix_shape, 0.9), Scale("int8", 0.02, 5)
    kernels, run = compiled(c, matrix, lambda: Epilogue(FACTORS, BIAS, output=output))
    assert len(kernels) == 1
    x = bytes_of(RNG, c)
    assert_bytes(run(x), (reference(c, x, matrix) * FACTORS + BIAS) / 0.02, output)


def test_any_number_of_rows():
    c = replace(LINEAR, lead=(tirx.Var("n", "int64"),))
    matrix = sparse_bytes(RNG, c.matrix_shape, 0.8)
    _, run = compiled(c, matrix, lambda: Epilogue(FACTORS), storage="balanced")
    for rows in (1, 4, 21):
        static = replace(c, lead=(rows,))
        x = bytes_of(RNG, static)
        expected = reference(static, x, matrix) * FACTORS
        np.testing.assert_allclose(run(x), expected, rtol=1e-6, atol=1e-6)


def test_what_does_not_fit_the_numerics_is_refused():
    matrix = sparse_bytes(RNG, LINEAR.matrix_shape, 0.5)
    with pytest.raises(InputError, match=r"layer 'fc'.*input int8"):
        compiled(LINEAR, matrix, lambda: Epilogue(FACTORS), dtype="int8")
    with pytest.raises(InputError, match="one for each of 37 features"):
        compiled(LINEAR, matrix, lambda: Epilogue(FACTORS[:3]))
