"""Candidates of quantized layers: what fits, how it is stored, and that each is exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.integers import TARGETS, as_integers, bytes_of, sparse_bytes
from tests.kernels import host, run
from tvm_sparse.base.config import Config
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import DENSE, Decisions
from tvm_sparse.selection.layer import Layer

pytestmark = pytest.mark.isa
LINEAR = as_integers(Contraction((3,), 128, 64), "int8", -9)
CHANNELS = replace(
    as_integers(Contraction((1, 5, 5), 32, 32, (3, 3), (1, 1), (1, 1), (7, 7)), "uint8", 200),
    depthwise=True,
)
vbmi = pytest.mark.isa("avx512vnni", "avx512vbmi")
"""Banks of 64 bytes."""


def blocks(rng, shape, sparsity):
    kept = rng.random((shape[0] // 16, shape[1] // 16)) >= sparsity
    return sparse_bytes(rng, shape, 0.5) * kept.repeat(16, 0).repeat(16, 1)


def offered(c, matrix, target):
    every = [*dense_candidates(c, target), *sparse_candidates(c, Scan(matrix), target)]
    return {x.name: x for x in every if isinstance(x, Candidate)}, [
        x for x in every if isinstance(x, str)
    ]


@pytest.mark.grid
@pytest.mark.parametrize("machine", ["AVX-512 VNNI VBMI", "AVX2"])
def test_every_candidate_is_exact(machine):
    if machine not in TARGETS:
        pytest.skip("not one of this machine's instruction sets")
    target, rng = TARGETS[machine], np.random.default_rng(0)
    for c, names in (
        (LINEAR, {"dense", "balanced", "joint", "block"}),
        (CHANNELS, {"dense", "depthwise_taps"}),
    ):
        matrix = (
            blocks(rng, c.matrix_shape, 0.6) if c is LINEAR else sparse_bytes(rng, (32, 9), 0.8)
        )
        found, _ = offered(c, matrix, target)
        assert set(found) == names
        x = bytes_of(rng, c)
        for candidate in found.values():
            arrays = candidate.format.encode(matrix)
            np.testing.assert_array_equal(candidate.format.decode(arrays), matrix)
            assert candidate.format.nbytes() == sum(a.nbytes for a in arrays.values())
            got = run(candidate.func, [x, *arrays.values()], c.output_shape, target, "int32")
            np.testing.assert_array_equal(got, reference(c, x, matrix))


@vbmi
def test_banks_are_as_wide_as_a_register():
    rng = np.random.default_rng(0)
    matrix = sparse_bytes(rng, (64, 256), 0) * (rng.random((64, 4, 64)).argsort(-1) < 8).reshape(
        64, 256
    )
    many = as_integers(Contraction((64,), 256, 64))
    found, _ = offered(many, matrix, host())
    inner = found["balanced"].format
    assert (inner.bank, inner.keep, inner.depth) == (64, 8, 4)
    assert found["balanced"].cost < 0.25


@vbmi
def test_masks_of_small_banks_are_stored_in_whole_registers():
    """2 of 16 are 4 of 32 and 8 of 64: as many products, but one plain load of activations."""
    rng = np.random.default_rng(0)
    kept = rng.random((64, 16, 16)).argsort(-1) < 2
    matrix = sparse_bytes(rng, (64, 256), 0) * kept.reshape(64, 256)
    found, _ = offered(as_integers(Contraction((64,), 256, 64)), matrix, host())
    inner = found["balanced"].format
    assert (inner.bank, inner.keep) == (64, 8)


def test_what_does_not_fit_says_why():
    matrix = sparse_bytes(np.random.default_rng(0), (20, 67), 0.9)
    found, reasons = offered(as_integers(Contraction((9,), 67, 20)), matrix, host())
    assert set(found) == {"dense", "balanced", "joint"}
    assert any("block needs a multiple of 4 columns" in reason for reason in reasons)
    assert any("one column a lane" in reason for reason in reasons)


@pytest.mark.parametrize("rows", [1, 9, 128])
def test_zeros_anywhere_are_not_padded_to_the_fullest_bank(rows):
    matrix = sparse_bytes(np.random.default_rng(0), (64, 500), 0.75)
    found, _ = offered(as_integers(Contraction((rows,), 500, 64)), matrix, host())
    assert found["joint"].work < 0.36 < found["balanced"].work
    assert found["joint"].cost < found["balanced"].cost


def test_the_chooser_measures_and_encodes():
    matrix = blocks(np.random.default_rng(0), (64, 128), 0.8)
    chooser = Chooser(host(), Config(cache=False), Decisions())
    choice = chooser.choose(Layer("l", "linear", replace(LINEAR, lead=(64,)), matrix))
    assert choice.candidate.name in choice.times
    assert not set(choice.times).isdisjoint(DENSE)
    assert "offsets" in choice.arrays
