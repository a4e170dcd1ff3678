"""One weight as the matrices that matter, each scanned once for all who ask about its zeros."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.lowering import ORDERS, lower
from tvm_sparse.patterns.scan import Scan


class Analysis:
    """The scans of a weight in the column orders of :mod:`tvm_sparse.patterns.lowering`.

    The detector, the candidates and the reports of a layer share it, and with it what a
    :class:`~tvm_sparse.patterns.scan.Scan` remembers.

    Parameters
    ----------
    weight
        ``(out, in)``; of a convolution ``(out, in, k)`` or ``(out, in, kh, kw)`` (also 3-D).
    depthwise
        Whether it is the weight ``(channels, 1, kh, kw)`` of a depthwise convolution.
    name
        What errors call the weight: its fully qualified name.

    Raises
    ------
    InputError
        For other ranks; :meth:`scan` for NaN and infinite weights, with their position.
    """

    def __init__(
        self, weight: npt.ArrayLike, *, depthwise: bool = False, name: str = "weight"
    ) -> None:
        self.weight = np.asarray(weight)
        self.depthwise, self.name = depthwise, name
        shape = self.weight.shape
        if not 2 <= len(shape) <= 5 or 0 in shape:
            raise InputError(name, f"shape {shape}", expected="2 to 5 dimensions, none of them 0")
        if depthwise and (len(shape) == 2 or shape[1] != 1):
            expected = "(channels, 1, kh, kw) if depthwise"
            raise InputError(name, f"shape {shape}", expected=expected)
        self._scans: dict[str, Scan] = {}

    @property
    def orders(self) -> tuple[str, ...]:
        """The column orders that differ for this weight."""
        shape = self.weight.shape
        one_tap = len(shape) == 2 or all(extent == 1 for extent in shape[2:])
        return ORDERS[:1] if self.depthwise or one_tap or shape[1] == 1 else ORDERS

    def scan(self, order: str) -> Scan:
        """Return the scan of the weight's matrix with columns in ``order``."""
        order = order if order in self.orders else ORDERS[0]
        if order not in self._scans:
            shape = self.weight.shape
            inner = order == "ihw" and not self.depthwise
            self._scans[order] = Scan(
                lower(self.weight, order),
                taps=int(np.prod(shape[2:], dtype=int)) if inner else 1,
                name=self.name,
                shape=shape,
            )
        return self._scans[order]
