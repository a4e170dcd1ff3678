"""Bytes with a scale a row: the bytes of NumPy and PyTorch, from one pass over each row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.integers import TARGETS
from tvm_sparse.quantization.rows import quantized

CHOICES = {
    "symmetric": quantized.choose_qparams_per_token.default,
    "asymmetric": quantized.choose_qparams_per_token_asymmetric.default,
}
LIMITS = (-128, 127, torch.int8)


class Rows(nn.Module):
    """A linear layer of bytes on bytes with a scale, and perhaps a zero point, a row."""

    def __init__(self, choice: str, columns: int = 64, keep: float = 1.0) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        weight = rng.integers(-127, 128, (48, columns), np.int8)
        weight *= rng.random(weight.shape) < keep
        self.choose, self.bias = CHOICES[choice], nn.Parameter(torch.randn(48))
        self.register_buffer("weight", torch.from_numpy(weight))
        self.register_buffer("scales", torch.rand(48) / 100 + 1e-3)
        self.register_buffer("zeros", torch.zeros(48, dtype=torch.int64))

    def forward(self, x):
        sizes, zeros = self.choose(x, torch.int8)
        q = quantized.quantize_per_token(x, sizes, zeros, *LIMITS)
        x = quantized.dequantize_per_token(q, sizes, zeros, *LIMITS, torch.float32)
        rows = (self.scales, self.zeros, 0, -127, 127, torch.int8)
        weight = quantized.dequantize_per_channel(self.weight, *rows)
        return torch.relu(nn.functional.linear(x, weight, self.bias)), q, sizes


def compiled(model, x, target="cpu", **options):
    config = ts.Config(measure=False, tuned=False, **options)
    return ts.compile(torch.export.export(model.eval(), (x,)), target=target, config=config)


def assert_bytes(got, x, size, zero):
    """Check bytes against exact steps; a step next to a half may become either neighbour."""
    steps = x.astype(np.float64) / size + zero
    expected = np.clip(np.rint(steps), -128, 127)
    near = np.abs(steps - np.floor(steps) - 0.5) < 1e-4
    assert (np.abs(got - expected) <= near).all()
    assert near.mean() < 0.01


@pytest.mark.grid
@pytest.mark.parametrize(
    ("choice", "shape"),
    [
        ("symmetric", (3, 5, 200)),
        ("asymmetric", (2, 8, 64)),
        ("asymmetric", (7, 33)),
        ("asymmetric", (2, 1)),
    ],
)
def test_bytes_and_results(choice, shape):
    torch.manual_seed(0)
    model, x = Rows(choice, shape[-1]), torch.randn(shape) * 3 + 1
    library = compiled(model, x)
    assert sum(k.function.startswith("quantize_rows") for k in library.kernels) == 1
    assert len(library.kernels) == 2
    result, q, size = (t.numpy() for t in library(x))
    sizes, zeros = (t.numpy() for t in model.choose(x, torch.int8))
    np.testing.assert_array_equal(size, sizes)
    assert_bytes(q, x.numpy(), sizes, zeros)
    weight = model.weight.numpy().astype(np.float64) * model.scales.numpy()[:, None]
    exact = (q - zeros.astype(np.float64)) * sizes @ weight.T + model.bias.detach().numpy()
    np.testing.assert_allclose(result, np.maximum(exact, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.grid
@pytest.mark.parametrize("choice", CHOICES)
def test_rows_of_nothing_but_zeros_and_of_large_values(choice):
    x = torch.zeros(4, 40)
    x[1, 3], x[2], x[3] = 1e30, -2.0, torch.linspace(0, 1, 40)
    model = Rows(choice, 40)
    library = compiled(model, x)
    got, expected = library(x), model(x)
    np.testing.assert_array_equal(got[1], expected[1])
    torch.testing.assert_close(got[0], expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("format", "target"),
    [
        ("dense", next(iter(TARGETS))),
        ("balanced", next(iter(TARGETS))),
        *(pytest.param("balanced", t, marks=pytest.mark.slow) for t in [*TARGETS][1:]),
    ],
)
def test_every_machine(format, target):
    model, x = Rows("asymmetric", keep=0.2), torch.randn(6, 64)
    name = str(TARGETS[target].attrs["mcpu"])
    library = compiled(model, x, f"cpu:{name}", force={"*": format})
    for got, expected in zip(library(x), model(x), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    assert {d.chosen for d in library.decisions} == {format}


def test_any_number_of_rows():
    model = Rows("asymmetric").eval()
    rows = torch.export.Dim("n", max=100)
    program = torch.export.export(model, (torch.randn(4, 64),), dynamic_shapes={"x": {0: rows}})
    library = ts.compile(program, config=ts.Config(measure=False, tuned=False))
    for count in (1, 5, 19):
        x = torch.randn(count, 64)
        torch.testing.assert_close(library(x)[0], model(x)[0], rtol=1e-5, atol=1e-5)


def test_many_rows_are_shared_between_threads():
    model, x = Rows("symmetric", 512), torch.randn(200, 512)
    library = compiled(model, x)
    np.testing.assert_array_equal(library(x)[1], model(x)[1])


def kept(format, features, columns):
    """Return where weights are no zeros, as ``format`` has them."""
    rng = np.random.default_rng(3)
    groups = -(-features // 16)
    if format == "balanced":
        return (rng.random((features, columns // 16, 16)).argsort(-1) < 4).reshape(features, -1)
    if format == "block":
        return (rng.random((groups, columns // 4)) < 0.3).repeat(16, 0).repeat(4, 1)
    if format == "shared columns":
        return (rng.random((groups, columns)) < 0.25).repeat(16, 0)
    if format == "joint":
        banks = (rng.random((groups, columns // 16)) < 0.6).repeat(16, 0).repeat(16, 1)
        return banks & (rng.random(banks.shape) < 0.3)
    return rng.random((features, columns)) < {"dense": 1, "unstructured": 0.1}[format]


@pytest.mark.grid
@pytest.mark.parametrize(
    ("format", "chosen", "choice", "rows"),
    [
        ("block", "block", "asymmetric", 70),
        ("shared columns", "block", "asymmetric", 70),
        ("joint", "joint", "symmetric", 6),
        ("unstructured", "balanced", "asymmetric", 6),
        *(
            pytest.param(*case, choice, rows, marks=pytest.mark.slow)
            for case in (
                ("dense", "dense"),
                ("balanced", "balanced"),
                ("block", "block"),
                ("shared columns", "block"),
                ("joint", "joint"),
                ("unstructured", "balanced"),
            )
            for choice in CHOICES
            for rows in (1, 70)
        ),
    ],
)
def test_every_format_is_exact(format, chosen, choice, rows):
    """Sums are integers, and scales of few bits are found as they are: no bit may differ."""
    rng = np.random.default_rng(0)
    model, x = Rows(choice, 128), torch.from_numpy(rng.standard_normal((rows, 128), np.float32) * 3)
    weight = rng.integers(-127, 128, (48, 128)) * kept(format, 48, 128)
    model.weight = torch.from_numpy(weight.astype(np.int8))
    model.scales, model.bias = torch.from_numpy(rng.integers(1, 9, 48) / 1024).float(), None
    library = compiled(model, x, force={"*": chosen})
    result, q, size = (t.numpy() for t in library(x))
    sizes, zeros = (t.numpy() for t in model.choose(x, torch.int8))
    np.testing.assert_array_equal(size, sizes)
    assert_bytes(q, x.numpy(), sizes, zeros)
    sums = (q.astype(np.int32) - zeros.astype(np.int32)) @ weight.T
    expected = sums.astype(np.float32) * size.astype(np.float32) * model.scales.numpy()
    np.testing.assert_array_equal(result, np.maximum(expected, 0))
    assert [d.chosen for d in library.decisions] == [chosen]
