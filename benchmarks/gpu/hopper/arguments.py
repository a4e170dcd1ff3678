"""What a kernel is called with: ``Arguments`` of ``kernels/frame.cuh``, and its tensors."""

from __future__ import annotations

import ctypes

import torch

from benchmarks.gpu.hopper.design import Shape
from benchmarks.gpu.hopper.weights import Weight
from benchmarks.gpu.hopper.work import shared_out

POINTERS = ("weights", "column_tiles", "items", "first_items", "y")
NUMBERS = ("features", "rows", "steps", "row_tiles")


class Arguments(ctypes.Structure):
    """``Arguments`` of ``kernels/frame.cuh``."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in POINTERS),
        *((name, ctypes.c_int) for name in NUMBERS),
    ]


class Call:
    """The product of ``rows`` of activations with a weight, into :attr:`y`, ``[rows, M]`` fp16.

    ``units`` thread blocks or clusters are resident at once. :attr:`tensors` are what
    :data:`POINTERS` name, or None.
    """

    def __init__(self, weight: Weight, shape: Shape, rows: int, units: int) -> None:
        on, features = weight.packed.device, len(weight.dense)
        row_tiles = -(-rows // shape.rows)
        work = shared_out(weight.counts, row_tiles, units, shape.parts)
        items, first = (
            None if part is None else torch.tensor(part, dtype=torch.int32, device=on)
            for part in (work.items, work.first_items)
        )
        self.y = torch.full((rows, features), float("nan"), dtype=torch.float16, device=on)
        self.units = work.units
        self.tensors = (weight.packed, weight.column_tiles, items, first, self.y)
        pointers = (None if t is None else t.data_ptr() for t in self.tensors)
        self.arguments = Arguments(*pointers, features, rows, weight.counts[0], row_tiles)
