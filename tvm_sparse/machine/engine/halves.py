"""Float sums of bfloat16: two columns of a lane at once, whatever the machine."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvm_sparse.base.numerics import bits_of, vector_type
from tvm_sparse.machine.dot import plain_half_dot
from tvm_sparse.machine.engine.cpu import Engine


class HalfEngine(Engine):
    """Activations and weights of bfloat16, both handled by their bits.

    TVM would round sums and widen vectors if it knew what they are.
    """

    @property
    def held(self) -> str:
        """Type of the buffers that hold stored weights."""
        return f"uint{self.numerics.bits}"

    @property
    def depth(self) -> int:
        """Columns of a lane that fill the bits of its sum."""
        return bits_of(self.numerics.accumulate) // self.numerics.bits

    def view(self, x: Any) -> Any:
        """Return ``x`` by its bits."""
        return _Bits(x, self.held)

    def wide(self, value: Any, shift: int = 0) -> Any:
        """Return a number, given by its bits if they are unsigned, in the type of the sums."""
        del shift
        sums = self.numerics.accumulate
        missing = bits_of(sums) - self.numerics.bits
        dtype = value.ty.dtype
        lanes = "" if int(dtype.lanes) == 1 else f"x{int(dtype.lanes)}"
        bits = tirx.reinterpret(f"{self.held}{lanes}", value)
        by = tirx.const(missing, f"uint{bits_of(sums)}")
        by = tirx.Broadcast(by, int(dtype.lanes)) if lanes else by
        high = tirx.shift_left(tirx.Cast(f"uint{bits_of(sums)}{lanes}", bits), by)
        return tirx.reinterpret(f"{sums}{lanes}", high)

    def weights(self, stored: Any) -> Any:
        """Return a vector of stored weights as they are multiplied."""
        return stored

    def multiply(self, sums: Any, weights: Any, activations: Any) -> Any:
        """Return ``sums`` with the products added, of :attr:`depth` columns a lane or of one."""
        if int(weights.ty.dtype.lanes) == int(sums.ty.dtype.lanes):
            return sums + self.wide(weights) * self.wide(activations)
        dot = self.machine.dot(self.numerics.activation, plain_half_dot)
        return dot(sums, activations, weights)

    def lookup(self, x: Any, row: tuple[Any, ...], start: Any, index: Any, bank: int) -> Any:
        """Return, for each half, the activation of ``x[row]`` at ``start + index`` in a bank."""
        return self.machine.lookup(self.numerics.activation, bank)(self.view(x), row, start, index)


class _Bits:
    """A buffer of bfloat16, read by its bits."""

    def __init__(self, buffer: Any, dtype: str) -> None:
        self.buffer, self.dtype = buffer, dtype

    def __getitem__(self, index: Any) -> Any:
        value = self.buffer[index]
        lanes = int(value.ty.dtype.lanes)
        return tirx.reinterpret(vector_type(self.dtype, lanes), value)
