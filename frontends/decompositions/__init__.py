"""How PyTorch operators are taken apart before the import, one family of operators a file.

Beside PyTorch's core decompositions: products stay whole, attention becomes plain, and uses that
TVM's importer gets wrong without a word (negative indices, ``alpha``, ``scale``, …) are written
with operators that it gets right.
"""

from tvm_sparse.frontends.decompositions import (
    arithmetic,
    attention,
    bessel,
    elementwise,
    exponentials,
    gamma,
    indexing,
    norms,
    order,
    pooling,
    primitives,
    products,
    reductions,
    scans,
    scatters,
    statistics,
    views,
)
from tvm_sparse.frontends.decompositions.table import decompositions

__all__ = [
    "arithmetic",
    "attention",
    "bessel",
    "decompositions",
    "elementwise",
    "exponentials",
    "gamma",
    "indexing",
    "norms",
    "order",
    "pooling",
    "primitives",
    "products",
    "reductions",
    "scans",
    "scatters",
    "statistics",
    "views",
]
