"""How many threads the libraries of a benchmark take."""

from __future__ import annotations

import os


def limit_threads(threads: int) -> None:
    """Let OpenMP, MKL and TVM take ``threads``; libraries that have started theirs keep them."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[name] = str(threads)
