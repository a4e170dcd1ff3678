"""Code size: what the object file says, and that operators stay small."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from benchmarks.harness.code_size import code_bytes, executable_bytes
from tests.kernels import host, keep_of_bank
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.build import build_function
from tvm_sparse.selection.candidates import dense_candidate, sparse_candidates

LIMIT = 64 * 1024

LAYERS = [
    Contraction((128,), 256, 256),
    Contraction((37,), 256, 200),
    Contraction((1, 14, 14), 32, 64, (3, 3), (1, 1), (1, 1), (16, 16)),
    Contraction((1, 7, 7), 16, 48, (7, 7), (2, 2), (1, 1), (19, 19)),
]


def candidates(contraction):
    matrix = keep_of_bank(np.random.default_rng(0), contraction.matrix_shape, 2)
    yield dense_candidate(contraction, host())
    yield from sparse_candidates(contraction, Scan(matrix), host())


@pytest.mark.grid
@pytest.mark.parametrize("contraction", LAYERS, ids=str)
def test_operators_are_small(contraction):
    sizes = {
        c.name: code_bytes(build_function(c.func, host()))
        for c in candidates(contraction)
        if not isinstance(c, str)
    }
    assert {"dense", "balanced", "unstructured"} <= set(sizes)
    assert max(sizes.values()) < LIMIT, sizes
    assert min(sizes.values()) > 100


@pytest.mark.skipif(not shutil.which("size"), reason="needs binutils")
def test_the_object_file_agrees(tmp_path):
    candidate = dense_candidate(LAYERS[0], host())
    path = tmp_path / "code.o"
    build_function(candidate.func, host()).write_to_file(str(path), "o")
    listed = subprocess.run(["size", "-A", path], capture_output=True, text=True, check=True).stdout
    named = [line.split() for line in listed.splitlines() if line.startswith(".text")]
    assert executable_bytes(path.read_bytes()) == sum(int(size) for _, size, _ in named)


def test_other_files_are_refused():
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF"):
        executable_bytes(b"MZ" + bytes(100))
