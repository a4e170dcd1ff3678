"""Integer sums of bytes: exact, whatever the order; several columns of a lane at once."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvm_sparse.base.numerics import bits_of, is_signed, vector_type
from tvm_sparse.machine.dot import plain_dot
from tvm_sparse.machine.engine.cpu import Engine

UNSIGNED = "uint8"
"""What instructions take as activations."""


class IntegerEngine(Engine):
    """Unsigned activations times signed weights, four bytes of each in a lane.

    Signed activations have their top bit flipped, which adds 128 to each: see :attr:`shift`.
    """

    @property
    def held(self) -> str:
        """Type of the buffers that hold stored weights."""
        return self.numerics.weight

    @property
    def depth(self) -> int:
        """Columns of a lane that fill the bits of its sum."""
        return bits_of(self.numerics.accumulate) // self.numerics.bits

    @property
    def shift(self) -> int:
        """What is added to each activation before it is multiplied."""
        return 1 << (self.numerics.bits - 1) if is_signed(self.numerics.activation) else 0

    def view(self, x: Any) -> Any:
        """Return ``x`` as unsigned activations."""
        return _Flipped(x, self.shift) if self.shift else x

    def weights(self, stored: Any) -> Any:
        """Return a vector of stored weights as they are multiplied."""
        return stored

    def multiply(self, sums: Any, weights: Any, activations: Any) -> Any:
        """Return ``sums`` with the products added, of :attr:`depth` columns a lane or of one."""
        if int(weights.ty.dtype.lanes) == int(sums.ty.dtype.lanes):
            return plain_dot(sums, activations, weights)
        return self.machine.dot(UNSIGNED)(sums, activations, weights)

    @property
    def banks(self) -> tuple[int, ...]:
        """Columns of the banks of activations that it looks up in registers, smallest first."""
        return self.machine.banks(UNSIGNED)

    def lookup(self, x: Any, row: tuple[Any, ...], start: Any, index: Any, bank: int) -> Any:
        """Return, for each byte, the activation of ``x[row]`` at ``start + index`` in a bank."""
        return self.machine.lookup(UNSIGNED, bank)(self.view(x), row, start, index)


class TileIntegers(IntegerEngine):
    """Bytes that an engine for tiles multiplies: signed ones as they are."""

    @property
    def shift(self) -> int:
        """What is added to each activation before it is multiplied: nothing."""
        return 0


class _Flipped:
    """A buffer of signed bytes, read as unsigned ones that are larger by ``shift``."""

    def __init__(self, buffer: Any, shift: int) -> None:
        self.buffer, self.shift = buffer, shift

    def __getitem__(self, index: Any) -> Any:
        value = self.buffer[index]
        lanes = int(value.ty.dtype.lanes)
        unsigned = vector_type(UNSIGNED, lanes)
        flip = tirx.const(self.shift, UNSIGNED)
        flip = flip if lanes == 1 else tirx.Broadcast(flip, lanes)
        return tirx.bitwise_xor(tirx.reinterpret(unsigned, value), flip)
