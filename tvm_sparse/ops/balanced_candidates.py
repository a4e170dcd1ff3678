"""Which balanced storages fit a weight matrix, and what they would cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from tvm.target import Target

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.ops.balanced import balanced
from tvm_sparse.ops.candidates import Candidate
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.lookup import lookup_cost
from tvm_sparse.ops.narrow import narrowed, stored_as


def balanced_candidates(
    contraction: Contraction, matrix: np.ndarray, target: Target
) -> Iterator[Candidate | str]:
    """Yield the balanced storage of ``matrix``, rows sharing columns where they really do."""
    if contraction.depthwise or target.kind.name != "llvm":
        return
    segments = math.prod(contraction.taps)
    try:
        alone = BalancedFormat.of(matrix, segments=segments)
    except UnsupportedError as error:
        yield str(error)
        return
    shared = (BalancedFormat.of(matrix, share=s, segments=segments) for s in (4, 2))
    storage = next((s for s in shared if s.keep == alone.keep), alone)
    stored = stored_as(contraction, matrix, target)
    func = balanced(contraction, storage, target, stored)
    # Rows that share columns look up once.
    penalty = 1 + lookup_cost(target) / storage.share
    work = storage.keep / storage.bank
    yield Candidate("balanced", narrowed(storage, stored), func, work, penalty)
