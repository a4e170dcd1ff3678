"""One way to store and compute a contraction with a given weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tvm import tirx

from tvm_sparse.formats.protocol import Format
from tvm_sparse.ops.contractions.contraction import Contraction


@dataclass(frozen=True)
class Candidate:
    """One format with its operator: ``func(X, *arrays, Y)``.

    ``work`` is the fraction of the dense multiply-adds that it executes, padding included;
    ``penalty`` the modelled cost of one of its multiply-adds relative to a dense one. ``nest``
    names the loop nest where candidates of several names share one: so do the model's errors.
    ``planes`` is what ``func`` computes if ``X`` and ``Y`` are channels first, ``X`` without
    borders. ``seconds`` is the modelled time, where the model knows one; formats of a model that is
    not sure must be ``margin`` times faster than dense. ``rival`` says that a library would be
    faster, or what else is to be told. ``own_seconds`` are those of our kernel where a library's is
    the candidate. The reduction is cut into ``parts``; ``ways`` makes the candidates of the same
    name with other parts, the modelled fastest first: tuning compares them.
    """

    name: str
    format: Format
    func: tirx.PrimFunc = field(repr=False)
    work: float
    penalty: float = 1.0
    nest: str = ""
    planes: Contraction | None = None
    seconds: float | None = None
    margin: float = 1.0
    rival: str = ""
    own_seconds: float | None = None
    parts: int = 1
    ways: Callable[[], Sequence[Candidate]] | None = field(default=None, repr=False, compare=False)

    @property
    def cost(self) -> float:
        """Modelled time relative to the dense operator (docs/design/cost.md)."""
        return self.work * self.penalty
