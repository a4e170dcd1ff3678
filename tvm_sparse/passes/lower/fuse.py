"""Operators become functions, and those that follow one another become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from tvm_sparse.passes.bytes.fuse_tables import AnnotateLookUps
from tvm_sparse.passes.lower.join_numbers import JoinNumbers
from tvm_sparse.passes.lower.legalise import Legalise
from tvm_sparse.passes.lower.order_parameters import OrderParameters
from tvm_sparse.passes.lower.simplify_extents import SimplifyExtents


def fused(
    definitions: Mapping[str, Any], *annotations: Any, behind: Sequence[Any] = ()
) -> list[Any]:
    """Return the passes; ``definitions`` of operators go before TVM's own.

    ``annotations`` say how functions may be fused, where TVM does not know better; passes
    ``behind`` TVM's own annotations change these.
    """
    return [
        Legalise(definitions),
        OrderParameters(),
        SimplifyExtents(),
        *annotations,
        relax.transform.AnnotateTIROpPattern(),
        AnnotateLookUps(),
        *behind,
        relax.transform.DeadCodeElimination(),  # of which FuseOps would tell stderr
        relax.transform.FuseOps(),
        JoinNumbers(),
        relax.transform.FuseTIR(),
        OrderParameters(),
        relax.transform.DeadCodeElimination(),
    ]
