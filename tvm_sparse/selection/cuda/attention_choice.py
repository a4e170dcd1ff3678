"""How many queries a thread block of fused attention has."""

from __future__ import annotations

import math

from tvm.target import Target

from tvm_sparse.ops.cuda.attention import Attention
from tvm_sparse.ops.cuda.attention_source import WARP_ROWS
from tvm_sparse.selection.cuda.chip import chip

MOST_WARPS = 4
"""Warps of a thread block: what it stages serves each of them."""


def attention_warps(a: Attention, target: Target) -> int:
    """Return the most warps with which each multiprocessor has a thread block, and none idles."""
    warps = MOST_WARPS
    while warps > 1 and (
        WARP_ROWS * warps // 2 >= a.rows
        or math.prod(a.lead) * -(-a.rows // (WARP_ROWS * warps)) < chip(target).sms
    ):
        warps //= 2
    return warps
