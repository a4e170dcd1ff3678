"""The families of masks that the detector looks for; third parties add their own."""

from __future__ import annotations

from tvm_sparse.base.table import Table
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Pattern
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.dense import Dense
from tvm_sparse.patterns.depthwise import DepthwiseTaps
from tvm_sparse.patterns.filters import FilterPruned
from tvm_sparse.patterns.joint import Joint
from tvm_sparse.patterns.unstructured import Unstructured

FAMILIES: Table[type[Pattern]] = Table(
    "pattern", {p.kind: p for p in (FilterPruned, Joint, Block, Balanced, DepthwiseTaps)}
)
"""Of equal costs the earlier one, which says more, comes first."""

LAST: tuple[type[Pattern], ...] = (Unstructured, Dense)
"""Families that say nothing; all others stand before them."""


def families() -> list[type[Pattern]]:
    """Return each family once, in the order in which fits of equal cost are ranked."""
    return list(dict.fromkeys((*(f for f in FAMILIES if f not in LAST), *LAST)))
