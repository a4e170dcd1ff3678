"""Who yields the candidates of a weight: one function a sparsity kind; third parties add theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
from tvm.target import Target

from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cpu.balanced import balanced_candidates
from tvm_sparse.selection.cpu.block import block_candidates
from tvm_sparse.selection.cpu.compressed_rows import unstructured_candidates
from tvm_sparse.selection.cpu.depthwise_taps import depthwise_taps_candidates
from tvm_sparse.selection.cpu.joint import joint_candidates
from tvm_sparse.table import Table

Operators: TypeAlias = Callable[[Contraction, np.ndarray, Target], Iterable[Candidate | str]]
"""``(contraction, matrix, target)`` -> candidates, or sentences that say why there is none."""

OPERATORS: Table[Operators] = Table(
    "kind",
    {
        "balanced": balanced_candidates,
        "block": block_candidates,
        "joint": joint_candidates,
        "depthwise_taps": depthwise_taps_candidates,
        "unstructured": unstructured_candidates,
    },
)
