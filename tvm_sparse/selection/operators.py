"""Who yields the candidates of a weight: a function for each sparsity kind and sort of target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from tvm.target import Target

from tvm_sparse.base.table import Table
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cpu import balanced, block, compressed_rows, depthwise_taps, joint
from tvm_sparse.selection.cuda import candidates as cuda

Operators: TypeAlias = Callable[[Contraction, Scan, Target], Iterable[Candidate | str]]
"""``(contraction, scan, target)`` -> candidates, or sentences that say why there is none."""

OPERATORS: Table[Mapping[str, Operators]] = Table(
    "kind",
    {
        "balanced": {
            "llvm": balanced.balanced_candidates,
            "cuda": cuda.balanced_candidates,
        },
        "block": {
            "llvm": block.block_candidates,
            "cuda": cuda.block_candidates,
        },
        "joint": {
            "llvm": joint.joint_candidates,
            "cuda": cuda.joint_candidates,
        },
        "depthwise_taps": {
            "llvm": depthwise_taps.depthwise_taps_candidates,
            "cuda": cuda.depthwise_taps_candidates,
        },
        "unstructured": {
            "llvm": compressed_rows.unstructured_candidates,
            "cuda": cuda.unstructured_candidates,
        },
    },
)
"""By the kind's name, then by TVM's name for the kind of target."""
