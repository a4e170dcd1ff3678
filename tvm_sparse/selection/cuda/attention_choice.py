"""How many queries a thread block of fused attention has."""

from __future__ import annotations

import math

from tvm.target import Target

from tvm_sparse.ops.cuda.attention import Attention
from tvm_sparse.ops.cuda.attention_source import WARP_ROWS
from tvm_sparse.selection.cuda.chip import chip

MOST_WARPS = 4
"""Warps of a thread block: what it stages serves each of them."""

OPEN_ROWS, OPEN_ITEMS = 512, 1
"""What queries and items of open extents count as. Long sequences decide: too small a thread block
stages their keys too often, too large a one leaves multiprocessors idle where they are short."""


def attention_warps(a: Attention, target: Target) -> int:
    """Return the most warps with which each multiprocessor has a thread block, and none idles."""
    rows = a.rows if isinstance(a.rows, int) else OPEN_ROWS
    items = math.prod(e if isinstance(e, int) else OPEN_ITEMS for e in a.lead)
    warps = MOST_WARPS
    while warps > 1 and (
        WARP_ROWS * warps // 2 >= rows or items * -(-rows // (WARP_ROWS * warps)) < chip(target).sms
    ):
        warps //= 2
    return warps
