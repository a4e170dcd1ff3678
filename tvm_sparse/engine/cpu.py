"""The engine of a CPU: what one instruction does with a vector of weights and its activations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx

from tvm_sparse.machine.record import Machine
from tvm_sparse.machine.vector import VECTOR_BITS
from tvm_sparse.numerics import Numerics, bits_of

Vector: TypeAlias = Any
"""An expression of several lanes."""


@dataclass(frozen=True)
class Engine(ABC):
    """What a machine can do with some numerics; operators ask it for every vector they emit.

    ``group`` is how many columns a lane multiplies and adds up in one instruction.
    """

    numerics: Numerics
    machine: Machine
    group: int = 1

    @property
    def lanes(self) -> int:
        """Sums of a vector."""
        return VECTOR_BITS // bits_of(self.numerics.accumulate)

    @property
    def banks(self) -> tuple[int, ...]:
        """Columns of the banks of activations that it looks up in registers, smallest first."""
        return self.machine.banks(self.numerics.activation)

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

    def zero(self, lanes: int) -> Vector:
        """Return sums of nothing."""
        return tirx.Broadcast(tirx.const(0, self.numerics.accumulate), lanes)

    def broadcast(self, activation: Any, lanes: int) -> Vector:
        """Return one activation for every lane."""
        return tirx.Broadcast(activation, lanes)

    def lookup(self, x: Any, row: tuple[Any, ...], start: Any, index: Vector, bank: int) -> Vector:
        """Return, for each lane, the activation of ``x[row]`` at ``start + index`` in a bank."""
        return self.machine.lookup(self.numerics.activation, bank)(x, row, start, index)
