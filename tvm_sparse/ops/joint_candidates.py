"""Whether skipping empty banks beats storing all of them, and what it would cost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tvm.target import Target

from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.ops.candidates import Candidate
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.joint import joint
from tvm_sparse.ops.lookup import lookup_cost
from tvm_sparse.ops.narrow import narrowed, stored_as

TABLE = 0.1
"""Multiply-adds that the way through the table costs each of an entry's."""

EMPTY = 0.05
"""Share of empty banks below which a table of the others is not worth its loads."""


def joint_candidates(
    contraction: Contraction, matrix: np.ndarray, target: Target
) -> Iterator[Candidate | str]:
    """Yield the storage of the banks of ``matrix`` that hold a nonzero.

    The other ways to store a joint mask are candidates of their own: kept blocks dense (``block``)
    and all banks padded (``balanced``).
    """
    c, bank = contraction, CompressedBanksFormat.BANK
    if c.depthwise or target.kind.name != "llvm":
        return
    if c.columns % bank:
        yield f"joint needs a multiple of {bank} columns a tap, found {c.columns}"
        return
    outer = CompressedBanksFormat.kept(matrix)
    kept = outer.entries / (outer.slots * matrix.shape[1] // bank)
    if kept > 1 - EMPTY:
        yield f"joint: {kept:.0%} of the banks hold a nonzero"
        return
    storage = CompressedBanksFormat.of(matrix)
    stored = stored_as(c, matrix, target)
    func = joint(c, storage, target, stored)
    work = kept * storage.keep / bank
    penalty = 1 + TABLE + lookup_cost(target)
    yield Candidate("joint", narrowed(storage, stored), func, work, penalty)
