"""Float sums: one multiply-add a lane, weights stored in full or half precision."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.machine.engine.cpu import Engine, Vector


class FloatEngine(Engine):
    """Fused multiply-adds; weights in half precision are widened in registers.

    bfloat16 is held by its bits: TVM would round sums to it as well.
    """

    @property
    def held(self) -> str:
        """Type of the buffers that hold stored weights."""
        return "uint16" if self._by_bits else self.numerics.weight

    @property
    def _by_bits(self) -> bool:
        return self.numerics.weight == "bfloat16"

    def weights(self, stored: Vector) -> Vector:
        """Return a vector of stored weights in the type of the sums."""
        wide = self.numerics.accumulate
        if self.numerics.weight == wide:
            return stored
        lanes = int(stored.ty.dtype.lanes)
        if not self._by_bits:
            return tirx.Cast(f"{wide}x{lanes}", stored)
        missing = tirx.const(bits_of(wide) - bits_of(self.held), "uint32")
        high = tirx.shift_left(tirx.Cast(f"uint32x{lanes}", stored), tirx.Broadcast(missing, lanes))
        return tirx.reinterpret(f"{wide}x{lanes}", high)

    def multiply(self, sums: Any, weights: Any, activations: Any) -> Any:
        """Return ``sums + weights * activations``."""
        return sums + weights * activations
