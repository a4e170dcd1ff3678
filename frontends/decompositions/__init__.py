"""How PyTorch operators are taken apart before the import, one family of operators a file.

Beside PyTorch's core decompositions: products stay whole, attention becomes plain, and uses that
TVM's importer gets wrong without a word (negative indices, ``alpha``, ``scale``, …) are written
with operators that it gets right.
"""

from tvm_sparse.frontends.decompositions import (
    arithmetic,
    attention,
    bessel,
    chosen_scales,
    concatenate,
    convolutions,
    elementwise,
    embeddings,
    exponentials,
    gamma,
    indexing,
    matrices,
    norms,
    order,
    orthogonal,
    padding,
    pooling,
    primitives,
    products,
    quantised,
    recurrent,
    reductions,
    scans,
    scatters,
    statistics,
    triangular,
    views,
)
from tvm_sparse.frontends.decompositions.table import decompositions

__all__ = [
    "arithmetic",
    "attention",
    "bessel",
    "chosen_scales",
    "concatenate",
    "convolutions",
    "decompositions",
    "elementwise",
    "embeddings",
    "exponentials",
    "gamma",
    "indexing",
    "matrices",
    "norms",
    "order",
    "orthogonal",
    "padding",
    "pooling",
    "primitives",
    "products",
    "quantised",
    "recurrent",
    "reductions",
    "scans",
    "scatters",
    "statistics",
    "triangular",
    "views",
]
