"""Calls with torch's tensors that a program takes as they are: nothing is copied or converted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .spec import TensorSpec, nbytes
from .tensors import address_of, is_plain_torch

_MOST = 1024
"""Calls of so many shapes are known at a time."""

Shapes = tuple[tuple[int, ...], ...]


class Direct:
    """The inputs of a program, as such tensors.

    A call asks for them first: the questions of :func:`~tvm_sparse_runtime.tensors.accept` take
    longer than a small model. Where extents are open, a call of the same shapes was checked before.

    Parameters
    ----------
    inputs
        Specifications in call order.
    device
        Where the program runs.
    alignments
        Bytes on a multiple of which each begins.
    """

    def __init__(
        self, inputs: Sequence[TensorSpec], device: str, alignments: Sequence[int]
    ) -> None:
        self._inputs = tuple(inputs) if device == "cpu" else ()
        self._alignments = tuple(alignments)
        self._torch: Any = None
        self._dtypes: tuple[Any, ...] = ()
        self._sizes: dict[Shapes, tuple[int, ...]] = {}
        shapes: list[Any] = [spec.shape for spec in self._inputs]
        if all(isinstance(extent, int) for shape in shapes for extent in shape):
            self.learn(shapes)

    def learn(self, shapes: Sequence[Sequence[int]]) -> None:
        """Note the shapes of a call whose extents were checked."""
        known = tuple(map(tuple, shapes))
        if known in self._sizes or len(known) != len(self._inputs):
            return
        if any(0 in shape for shape in known):
            return
        while len(self._sizes) >= _MOST:
            self._sizes.pop(next(iter(self._sizes)), None)
        described = zip(known, self._inputs)
        self._sizes[known] = tuple([nbytes(shape, spec.dtype) for shape, spec in described])

    def spans(self, values: Sequence[Any]) -> list[tuple[int, int]] | None:
        """Return the address and the bytes of each value, or None if one is not such a tensor."""
        if len(values) != len(self._inputs) or not (self._dtypes or self._described()):
            return None
        torch, shapes = self._torch, []
        for value, dtype in zip(values, self._dtypes):
            if not is_plain_torch(value, torch, dtype):
                return None
            shapes.append(value.shape)
        sizes = self._sizes.get(tuple(shapes))
        if sizes is None:
            return None
        found = []
        for value, size, alignment in zip(values, sizes, self._alignments):
            address = address_of(value)
            if not address or address % alignment:
                return None
            found.append((address, size))
        return found

    def _described(self) -> bool:
        """Note the dtypes in torch's own terms, once it is imported."""
        torch: Any = sys.modules.get("torch")
        if torch is None or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            return False
        self._torch = torch
        self._dtypes = tuple([getattr(torch, spec.dtype, None) for spec in self._inputs])
        return bool(self._dtypes)
