"""The record of a machine: everything that code and cost models may know of a processor."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm_sparse.machine.costs import Costs
from tvm_sparse.machine.dot import Dot, plain_dot
from tvm_sparse.machine.lookup import ByteTable, Lookup, plain_lookup
from tvm_sparse.machine.pack import Pack
from tvm_sparse.machine.tiles import TileUnit
from tvm_sparse.machine.vector import SUM_BITS, VECTOR_BITS


@dataclass(frozen=True)
class Caches:
    """Bytes that schedules count on.

    ``first`` and ``second`` are a core's own caches. A tile's weights of ``weights`` bytes stay in
    the first one while rows of activations pass. Cores share the last one: ``last`` bytes of
    weights that all of them read stay in it, and ``near`` bytes of what one core writes.
    """

    first: int = 32 << 10
    weights: int = 32 << 10
    second: int = 1 << 20
    last: int = 16 << 20
    near: int = 4 << 20


@dataclass(frozen=True)
class Machine:
    """One instruction set, and how its registers are best filled.

    Parameters
    ----------
    name
        What reports and errors call it.
    features
        Names of LLVM's features that a target must have.
    register_bits
        Bits of a register.
    sums
        Registers that a tile of sums takes by default; the others hold operands.
    widths
        Bits of the vectors between which code may choose.
    lookups
        ``(dtype, columns, lookup)``: how to look up in a bank that registers hold, smallest first.
    dots
        ``(dtype, dot)``: how to multiply activations that lie side by side in a lane.
    fused
        The ``dtype`` of ``dots`` that are a single instruction, sums included.
    rounds
        Whether an instruction rounds floats to integers, half to even.
    pack
        How to make bytes of floats, if it has instructions for that.
    table
        How to look up in 256 bytes, if registers hold them.
    tiles
        ``(dtype, unit)``: how to multiply tiles of activations of ``dtype``.
    code
        ``(dtype, text)``: functions in LLVM's language that the dot product of ``dtype`` calls,
        where TVM has no way to call an instruction.
    costs
        What steps cost on a chip that has no costs of its own.
    chips
        ``(LLVM name, costs)`` of chips that differ.
    caches
        Sizes of its caches.
    kept
        ``(LLVM name, bytes)`` of chips whose first cache keeps more or less :attr:`Caches.weights`.
    """

    name: str
    features: tuple[str, ...]
    register_bits: int
    sums: int
    widths: tuple[int, ...]
    costs: Costs
    lookups: tuple[tuple[str, int, Lookup], ...] = ()
    dots: tuple[tuple[str, Dot], ...] = ()
    fused: tuple[str, ...] = ()
    rounds: bool = False
    pack: Pack | None = None
    table: ByteTable | None = None
    tiles: tuple[tuple[str, TileUnit], ...] = ()
    code: tuple[tuple[str, str], ...] = ()
    chips: tuple[tuple[str, Costs], ...] = field(default=(), repr=False)
    caches: Caches = Caches()
    kept: tuple[tuple[str, int], ...] = field(default=(), repr=False)

    @property
    def accumulators(self) -> int:
        """Vectors of :data:`VECTOR_BITS` that a tile of sums takes by default."""
        return max(1, self.sums * self.register_bits // VECTOR_BITS)

    def sums_of(self, bits: int) -> int:
        """Return :attr:`accumulators` of as many sums, if one has so many ``bits``."""
        return max(1, self.accumulators * SUM_BITS // bits)

    def banks(self, dtype: str) -> tuple[int, ...]:
        """Return the columns of banks of ``dtype`` that registers hold."""
        return tuple(bank for known, bank, _ in self.lookups if known == dtype)

    def lookup(self, dtype: str, bank: int) -> Lookup:
        """Return the fastest lookup in a bank of ``bank`` columns."""
        fast = (f for known, columns, f in self.lookups if (known, columns) == (dtype, bank))
        return next(fast, plain_lookup(bank))

    def tile_unit(self, dtype: str) -> TileUnit | None:
        """Return how to multiply tiles of activations of ``dtype``, if there is a way."""
        return dict(self.tiles).get(dtype)

    def dot(self, dtype: str, otherwise: Dot = plain_dot) -> Dot:
        """Return the fastest dot product of activations of ``dtype``."""
        return next((dot for known, dot in self.dots if known == dtype), otherwise)
