"""Each design computes what a naive product does, exactly on small integers, by its own source."""

from dataclasses import dataclass

import pytest
import torch

from benchmarks.gpu.hopper import on_cpu, weights
from benchmarks.gpu.hopper.arguments import Call
from benchmarks.gpu.hopper.design import Design, Shape

pytestmark = pytest.mark.skipif(bool(on_cpu.missing()), reason=on_cpu.missing())

COLUMNS = 256
UNITS = 2


@dataclass(frozen=True)
class Case:
    design: Design
    shape: Shape
    rows: int
    zeros: float = 0.0
    columns: int = COLUMNS


CASES = {
    "dense": Case(Design("tiles"), Shape(1, 8, 2), 8),
    "dense, two warpgroups, parts, rows left over": Case(Design("tiles"), Shape(2, 16, 3, 2), 13),
    "blocks, several items a unit": Case(Design("tiles"), Shape(1, 8, 2), 20, zeros=0.5),
    "blocks in parts": Case(Design("tiles"), Shape(1, 8, 3, 2), 1, zeros=0.5),
    "3 pairs of 32": Case(Design("pairs", 3), Shape(1, 8, 2), 8),
    "8 pairs of 32 in parts": Case(Design("pairs", 8), Shape(2, 8, 2, 2), 5),
    "3 scattered of 32": Case(Design("scatter", 3), Shape(1, 8, 2), 20),
    "8 scattered of 32 in parts": Case(Design("scatter", 8), Shape(2, 8, 2, 2), 5),
    "2:4": Case(Design("two_four"), Shape(1, 8, 2), 8, columns=384),
    "2:4 in parts": Case(Design("two_four"), Shape(2, 16, 2, 2), 13, columns=512),
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    place = tmp_path_factory.mktemp("hopper")
    return on_cpu.Kernels([(case.design, case.shape) for case in CASES.values()], place)


def product(kernels, name, change=lambda weight: weight):
    """Return what a kernel makes of integers, and what it must make of them."""
    case, generator = CASES[name], torch.Generator().manual_seed(0)
    shape = (2 * case.shape.features, case.columns)
    weight = weights.make(
        *(case.design, case.shape.features, shape, generator), zeros=case.zeros, integers=True
    )
    x = torch.randint(-2, 3, (case.rows, case.columns), generator=generator).half()
    call = Call(change(weight), case.shape, case.rows, UNITS)
    y = kernels.run(list(CASES).index(name), call, x)
    return y.float(), x.float() @ weight.dense.float().T


@pytest.mark.parametrize("name", CASES)
def test_products_are_exact(kernels, name):
    found, expected = product(kernels, name)
    assert expected.count_nonzero() > expected.numel() / 2
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


DECODED = {
    "3 pairs of 32": slice(0, 64),
    "3 scattered of 32": slice(-64, None),
    "2:4": slice(-64, None),
}
"""Bytes of a piece that say where values belong."""


@pytest.mark.parametrize("name", DECODED)
def test_changed_places_are_seen(kernels, name):
    def changed(weight):
        weight.packed[0, 0, DECODED[name]] ^= 3
        return weight

    found, expected = product(kernels, name, changed)
    assert (found != expected).any()
