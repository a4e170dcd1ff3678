"""Each design computes what a naive product does, exactly on small integers, by its own source."""

import pytest
import torch

from benchmarks.gpu.hopper import on_cpu
from benchmarks.gpu.hopper.arguments import Call
from tests.benchmarks.gpu.hopper.cases import CASES, UNITS, data

pytestmark = pytest.mark.skipif(bool(on_cpu.missing()), reason=on_cpu.missing())


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    place = tmp_path_factory.mktemp("hopper")
    return on_cpu.Kernels([(case.design, case.shape) for case in CASES.values()], place)


def product(kernels, name, change=lambda weight: weight):
    """Return what a kernel makes of integers, and what it must make of them."""
    case = CASES[name]
    weight, x = data(case)
    call = Call(change(weight), case.shape, case.rows, UNITS)
    y = kernels.run(list(CASES).index(name), call, x)
    return y.float(), x.float() @ weight.dense.float().T


@pytest.mark.grid
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
