"""Products of small integers by cuBLASLt's stand-in: a program for ``test_blas.py``."""

from __future__ import annotations

import numpy as np

from tests.runtime.library_cases import behind, called, print_all, small


def arrays(case):
    """Return the operands of a case, and what is to come out, all of small integers."""
    rng = np.random.default_rng(0)
    rows, features, columns = case["size"]
    inner, outer = np.dtype(case["dtype"]), np.dtype(case["out_dtype"])
    given = {"x": small(rng, rows, columns), "w": small(rng, columns, features + case["padding"])}
    given |= {"bias": small(rng, features), "residual": small(rng, rows, features)}
    wanted = behind(case, given["x"] @ given["w"][:, :features], given)
    types = {"x": inner, "w": inner}
    typed = {name: array.astype(types.get(name, outer)) for name, array in given.items()}
    return typed, wanted.astype(outer)


def run(case):
    """Return the status of a product, and whether it is right."""
    rows, features, columns = case["size"]
    numbers = (rows, features, columns, features + case["padding"])
    return called("tvm_sparse.blas.linear", case, *arrays(case), numbers)


if __name__ == "__main__":
    print_all(run)
