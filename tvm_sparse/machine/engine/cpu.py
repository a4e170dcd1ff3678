"""The engine of a CPU: what one instruction does with a vector of weights and its activations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx

from tvm_sparse.base.numerics import Numerics, bits_of
from tvm_sparse.machine.record import Machine
from tvm_sparse.machine.vector import VECTOR_BITS

Vector: TypeAlias = Any
"""An expression of several lanes."""


@dataclass(frozen=True)
class Engine(ABC):
    """What a machine can do with some numerics; operators ask it for every vector they emit."""

    numerics: Numerics
    machine: Machine

    @property
    def depth(self) -> int:
        """Columns that a lane multiplies and adds up in one instruction."""
        return 1

    @property
    def shift(self) -> int:
        """What is added to each activation before it is multiplied."""
        return 0

    @property
    def code(self) -> str:
        """Functions in LLVM's language that products call."""
        return dict(self.machine.code).get(self.numerics.activation, "")

    def corrects(self, zero_point: int) -> bool:
        """Whether a constant for each feature is added to the sums, given what input is zero."""
        return zero_point + self.shift != 0

    @property
    def lanes(self) -> int:
        """Sums of a vector."""
        return VECTOR_BITS // bits_of(self.numerics.accumulate)

    @property
    def banks(self) -> tuple[int, ...]:
        """Columns of the banks of activations that it looks up in registers, smallest first."""
        return self.machine.banks(self.numerics.activation)

    def words(self, bank: int) -> int:
        """Return the sums that fill as many registers as a bank: what costs are listed by."""
        columns = bank * self.numerics.bits // bits_of(self.numerics.accumulate)
        return max(self.lanes, columns)

    @property
    @abstractmethod
    def held(self) -> str:
        """Type of the buffers that hold stored weights."""

    @abstractmethod
    def weights(self, stored: Vector) -> Vector:
        """Return a vector of stored weights as they are multiplied."""

    @abstractmethod
    def multiply(self, sums: Vector, weights: Vector, activations: Vector) -> Vector:
        """Return ``sums`` with the products added."""

    def kept(self, weights: Vector, activations: Vector) -> Vector:
        """Return ``activations``, zero where ``weights`` are."""
        return tirx.Select(weights != _zeros_like(weights), activations, _zeros_like(activations))

    def zero(self, lanes: int) -> Vector:
        """Return sums of nothing."""
        return tirx.Broadcast(tirx.const(0, self.numerics.accumulate), lanes)

    def wide(self, value: Any, shift: int = 0) -> Any:
        """Return a stored number plus ``shift`` in the type of the sums."""
        sums = self.numerics.accumulate
        value = value if str(value.ty.dtype) == sums else tirx.Cast(sums, value)
        return value + tirx.const(shift, sums) if shift else value

    def view(self, x: Any) -> Any:
        """Return the buffer ``x`` as what is multiplied, to be read like a buffer."""
        return x

    def broadcast(
        self, x: Any, row: tuple[Any, ...], column: Any, lanes: int, columns: int | None = None
    ) -> Vector:
        """Return for every lane :attr:`depth` neighbours of ``x[row]``, the first at ``column``.

        Of a row of fewer ``columns`` the others are zero.
        """
        x, depth = self.view(x), self.depth
        if columns is None or columns >= depth:
            return self.spread(x, row, column, lanes)
        values = [x[(*row, column + i)] for i in range(columns)]
        return _repeated(_joined(values, depth), str(values[0].ty.dtype), lanes * depth, lanes)

    def spread(self, buffer: Any, row: tuple[Any, ...], column: Any, lanes: int) -> Vector:
        """Return for every lane :attr:`depth` neighbours of ``buffer[row]``, as they are."""
        if self.depth == 1:
            return tirx.Broadcast(buffer[(*row, column)], lanes)
        values = buffer[(*row, tirx.Ramp(column, 1, self.depth))]
        word = tirx.reinterpret(f"uint{self.depth * self.numerics.bits}", values)
        return _repeated(word, str(values.ty.dtype).partition("x")[0], lanes * self.depth, lanes)

    def lookup(self, x: Any, row: tuple[Any, ...], start: Any, index: Vector, bank: int) -> Vector:
        """Return, for each lane, the activation of ``x[row]`` at ``start + index`` in a bank."""
        return self.machine.lookup(self.numerics.activation, bank)(x, row, start, index)


def _zeros_like(vector: Vector) -> Vector:
    zero = tirx.const(0, str(vector.ty.dtype).partition("x")[0])
    return tirx.Broadcast(zero, int(vector.ty.dtype.lanes))


def _repeated(word: Any, dtype: str, elements: int, lanes: int) -> Vector:
    """Return ``word`` in each of ``lanes`` lanes, as ``elements`` of ``dtype``."""
    return tirx.reinterpret(f"{dtype}x{elements}", tirx.Broadcast(word, lanes))


def _joined(values: list[Any], depth: int) -> Any:
    """Return the bits of ``values`` side by side in a word of ``depth`` of them."""
    bits = bits_of(str(values[0].ty.dtype))
    wide = f"uint{bits * depth}"
    word = tirx.const(0, wide)
    for i, value in enumerate(values):
        narrow = tirx.reinterpret(f"uint{bits}", value)
        word = tirx.bitwise_or(
            word, tirx.shift_left(tirx.Cast(wide, narrow), tirx.const(i * bits, wide))
        )
    return word
