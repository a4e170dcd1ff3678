"""PTX that another compiler made for Hopper: exact, and found right.

Triton's kernels run on GPUs every day, so they are witnesses for the layouts of matrices that
``wgmma`` reads. ``witnesses/products.py`` made them.
"""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tvm_sparse_emulator.executor import Memory, execute

PLACE = Path(__file__).parent / "witnesses"
ROWS, COLUMNS, DEPTH, THREADS = 128, 128, 192, 128

# dtype, whether each matrix is stored by columns, columns of a thread block.
PRODUCTS = {
    "right_turned": ("f2", False, False, 64),
    "both_turned": ("f2", True, False, 16),
    "pattern_of_64": (ml_dtypes.bfloat16, False, True, 64),
    "pattern_of_32": ("f2", False, True, 32),
    "tf32": ("f4", False, True, 64),
}


def text_of(name):
    """The text, and its bytes of shared memory."""
    text = (PLACE / f"{name}.ptx").read_text(encoding="utf-8")
    return text, int(re.search(r"(\d+) bytes of shared", text)[1])


def data(dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((ROWS, DEPTH), (DEPTH, COLUMNS)))
    return a, b, a.astype("f4") @ b.astype("f4")


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_tiles_that_threads_copy(name):
    dtype, left_by_columns, right_by_columns, width = PRODUCTS[name]
    text, shared = text_of(name)
    a, b, wanted = data(dtype)
    c = np.zeros((ROWS, COLUMNS), "f4")
    left = np.ascontiguousarray(a.T) if left_by_columns else a
    right = np.ascontiguousarray(b.T) if right_by_columns else b
    grid = (ROWS // 64, COLUMNS // width, 1)
    arguments = [left, right, c, DEPTH, 0, 0]  # the last two: scratch that it does not use
    report = execute(text, "loads", grid, (THREADS, 1, 1), arguments, shared=shared)
    assert report.findings == ()
    assert np.array_equal(c, wanted)


def boxes(old="", new=""):
    """Whether sums are exact, and the instructions with findings; ``old`` becomes ``new``."""
    text, shared = text_of("boxes")
    assert re.search(old, text)
    a, b, wanted = data("f2")
    c = np.zeros((ROWS, COLUMNS), "f4")
    with Memory() as memory:
        arguments = []
        for array, box in ((a, (64, 64)), (b, (64, 64)), (c, (64, 32))):
            strides = (array.shape[1], 1)
            arguments += [memory.tensor_map(array, box, swizzle=3), *array.shape, *strides]
        report = execute(
            *(re.sub(old, new, text), "boxes", (2, 2, 1), (THREADS, 1, 1)),
            [*arguments, DEPTH, 0, 0],
            shared=shared,
            memory=memory,
        )
    return np.array_equal(c, wanted), {(one.kind, one.instruction) for one in report.findings}


FENCED = (r"(mbarrier\.init[^;]*;)", r"\1\nfence.mbarrier_init.release.cluster;")


def test_products_of_boxes():
    assert boxes(*FENCED) == (True, set())


def test_mbarriers_are_made_visible_to_copies():
    """CUDA's guide asks for a fence behind their making; Triton leaves it out."""
    exact, findings = boxes()
    assert exact
    assert {kind for kind, _ in findings} == {"proxy fence"}
    assert all("mbarrier::complete_tx" in instruction for _, instruction in findings)


def test_sums_are_made_visible_to_the_copy_back():
    _, findings = boxes(r"fence\.proxy\.async\S+;", "")
    assert any("bulk_group" in instruction for _, instruction in findings)
