"""2:4 products of small integers by cuSPARSELt's stand-in: a program for ``test_two_four.py``."""

from __future__ import annotations

import numpy as np

from tests.runtime.library_cases import behind, called, print_all, small
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse_runtime import engine


def run(case):
    """Return the status of a product, and whether it is right; it keeps so many of four weights."""
    rng = np.random.default_rng(0)
    rows, features, columns = case["size"]
    kept = Balanced(4, case["keep"]).project(rng.random((features, columns), dtype="f4"))
    given = {"x": small(rng, rows, columns), "w": small(rng, features, columns) * kept}
    given |= {"bias": small(rng, features), "residual": small(rng, rows, features)}
    wanted = behind(case, given["x"] @ given["w"].T, given).astype(case["out_dtype"])
    typed = {name: array.astype(case["dtype"]) for name, array in given.items()}
    compressed = engine.function("tvm_sparse.two_four.compressed")
    function = "tvm_sparse.two_four.linear"
    return called(function, case, typed, wanted, case["size"], compressed)


if __name__ == "__main__":
    print_all(run)
