"""Calls with torch's tensors that a program takes as they are: nothing is copied or converted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .spec import TensorSpec, nbytes
from .tensors import address_of, is_plain_torch


class Direct:
    """The inputs of a program, as such tensors.

    A call asks for them first: the questions of :func:`~tvm_sparse_runtime.tensors.accept` take
    longer than a small model.

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
        extents = [extent for spec in inputs for extent in spec.shape]
        fixed = all(isinstance(extent, int) and extent > 0 for extent in extents)
        self._inputs = tuple(inputs) if fixed and device == "cpu" else ()
        self._alignments = tuple(alignments)
        self._torch: Any = None
        self._kinds: tuple[tuple[Any, tuple[int, ...], int, int], ...] = ()

    def spans(self, values: Sequence[Any]) -> list[tuple[int, int]] | None:
        """Return the address and the bytes of each value, or None if one is not such a tensor."""
        if len(values) != len(self._inputs) or not (self._kinds or self._described()):
            return None
        torch, found = self._torch, []
        for value, (dtype, shape, size, alignment) in zip(values, self._kinds):
            if not is_plain_torch(value, torch, dtype) or value.shape != shape:
                return None
            address = address_of(value)
            if not address or address % alignment:
                return None
            found.append((address, size))
        return found

    def _described(self) -> bool:
        """Note the inputs in torch's own terms, once it is imported."""
        torch: Any = sys.modules.get("torch")
        if torch is None or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            return False
        self._torch = torch
        described = zip(self._inputs, self._alignments)
        self._kinds = tuple([self._kind(torch, spec, to) for spec, to in described])
        return bool(self._kinds)

    @staticmethod
    def _kind(torch: Any, spec: TensorSpec, to: int) -> tuple[Any, tuple[int, ...], int, int]:
        shape: Any = spec.shape  # of numbers alone
        return getattr(torch, spec.dtype, None), shape, nbytes(shape, spec.dtype), to
