"""Register tiles of other CPUs: what fits, and that every operator compiles for them."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.target import Target

from tests.kernels import host, integers
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.ops.contractions.block import block
from tvm_sparse.ops.contractions.compressed_rows import compressed_rows
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.build import build_function
from tvm_sparse.selection.candidates import dense_candidate, sparse_candidates

ARM = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1"})


@pytest.mark.parametrize(
    ("cpu", "vectors"), [("skylake-avx512", 16), ("haswell", 6), ("x86-64", 3), ("znver4", 16)]
)
def test_x86(cpu, vectors):
    assert machine_of(host(cpu)).accumulators == vectors


def test_arm():
    assert machine_of(ARM).accumulators == 6


@pytest.mark.parametrize(("cpu", "widths"), [("znver4", (256, 512)), ("haswell", (512,))])
def test_vectors_of_both_widths_are_avx512_s(cpu, widths):
    assert machine_of(host(cpu)).widths == widths


def masked(contraction, sparsity=0.8):
    rng = np.random.default_rng(0)
    kept = rng.random((contraction.features // 16, contraction.matrix_shape[1] // 16)) >= sparsity
    return integers(rng, contraction.matrix_shape, 0.5) * kept.repeat(16, 0).repeat(16, 1)


def test_candidates_compile_for_arm():
    contraction = Contraction((20,), 64, 32)
    offered = [dense_candidate(contraction, ARM)]
    offered += sparse_candidates(contraction, Scan(masked(contraction)), ARM)
    names = set()
    for candidate in offered:
        if not isinstance(candidate, str):
            names.add(candidate.name)
            assert "fmla" in build_function(candidate.func, ARM).inspect_source("asm")
    assert {"dense", "balanced", "block", "joint", "unstructured"} <= names


@pytest.mark.grid
@pytest.mark.parametrize("run", [compressed_rows, block])
def test_convolutions_compile_for_arm(run):
    contraction = Contraction((1, 5, 5), 16, 32, (3, 3), (1, 1), (1, 1), (7, 7))
    matrix = masked(contraction)
    format = CompressedRowsFormat.of(
        matrix, group=16, run=4, tile_rows=16, tile_cols=matrix.shape[1]
    )
    source = build_function(run(contraction, format, ARM), ARM).inspect_source("asm")
    assert "fmla" in source
