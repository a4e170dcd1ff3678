"""What the operators of one kind of target take as it is: the record, with that of CPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import relax
from tvm.target import Target

from tvm_sparse.passes.canonical.computed_kernels import computed_convolution
from tvm_sparse.passes.graph.rewrite import Rewriter
from tvm_sparse.passes.lower.products import Products


@dataclass(frozen=True)
class Abilities:
    """What operators do besides plain contractions; the defaults are those of CPUs.

    Parameters
    ----------
    products
        Lowers products of two activations.
    reads_outside
        Convolutions read zeros outside of their input; else these are written before.
    open_planes
        Convolutions take planes whose extents are known at run time only.
    groups
        A convolution of several groups is one operator.
    depthwise
        Of how many axes the windows of depthwise convolutions may be.
    grouped_bytes
        Convolutions of several groups, depthwise ones too, multiply bytes.
    computed_weights
        Lowers convolutions whose weight is computed; returns ``None`` to leave one.
    channels_first
        Layers may read planes channels first, so that nothing is transposed before them.
    shuffles
        Channels are repeated by shuffles of vectors.
    """

    products: type[Products] = Products
    reads_outside: bool = False
    open_planes: bool = True
    groups: bool = True
    depthwise: tuple[int, ...] = (1, 2, 3)
    grouped_bytes: bool = True
    computed_weights: Callable[[Rewriter, relax.Call, Target], Any] = computed_convolution
    channels_first: bool = True
    shuffles: bool = True


CPU = Abilities()
