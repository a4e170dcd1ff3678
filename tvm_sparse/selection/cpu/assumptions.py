"""What the models of CPUs assume of kernels on all chips, in multiply-adds of a whole vector.

What differs from chip to chip, and what ``tvm-sparse machine --fit`` measures, is in
:class:`tvm_sparse.machine.costs.Costs`. The figures here were found by timing operators beside the
dense one with AVX-512, at 128 rows. They order candidates: what may win is timed where it can be.
"""

from __future__ import annotations

TRANSPOSED_IN, TRANSPOSED_OUT = 6.0, 5.0
"""Transposing a vector of activations, and one of results."""

SHARED_IN, SHARED_OUT = 3.5, 4.0
"""The same where groups of rows share columns: a lane takes several of them."""

COPIED, STORED = 2.0, 2.0
"""Copying a vector of activations, and storing one of results."""

SLOT = 4.0
"""Beginning a slot: its position, its loop."""

GATHERED = 0.05
"""Gathering the activations of one multiply-add."""

LOADS = 0.5
"""What loads of activations, weights and positions add to a multiply-add of shifted planes."""

ROW_LOADS, VECTOR_LOADS, GROUP_POWER, RUN_LOADS = 0.2, 0.9, 1.5, 0.07
"""The same with lanes along the batch: always, shared by vectors, how fast groups share them, and
for a position that a group of runs shares."""

VECTOR_LOOP = 2.5
"""What a tile's loop costs beside each of its vectors."""

LATENCY = 4.0
"""Clocks until the result of a multiply-add can be added to."""

STREAMED = 0.25
"""An entry of a joint format whose weights come from memory; there a multiply-add costs its bytes,
1, in whatever bank."""

LOOKUP_ROWS = 4
"""Rows of input from which on lookups take time; with fewer, loading weights takes longer."""

WEIGHT_ROWS = 64
"""Rows of input up to which weights take longer to come than their indices to decode."""

DEPTHWISE_TAP = 1.8
"""Time of the dense depthwise operator that takes a tap at a time, over one that takes several."""

TABLE_GAIN = 0.9
"""Modelled cost of a joint format over that of equally full banks up to which it is faster where
hardly a bank is empty."""

SHIFTED_GAIN = 0.8
"""Modelled cost of shifted planes over that of compressed rows up to which they are faster."""

TILE_ROWS = 8
"""Rows of input from which on products of tiles pay: fewer wait for their weights."""

SINGLE_BLOCK = 1.2
"""Time of a step of one block of features in tiles, over half of that of two which share it."""
