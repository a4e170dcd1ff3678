"""What a layer may become: dense, or pruned by one of a few methods at one of a few levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.layer import at_sparsity
from tvm_sparse.pruning.methods.base import Method
from tvm_sparse.pruning.spelling import spelled


@dataclass(frozen=True)
class Candidate:
    """A ``method`` with its level, ``None`` for dense.

    ``family`` numbers the methods that differ in more than their level: 0 for dense.
    """

    method: Method | None
    family: int
    level: float

    @property
    def label(self) -> str:
        """What tables call it."""
        if self.method is None:
            return "dense"
        spelling = spelled(self.method)
        name, rest = spelling.pop("method"), {k: v for k, v in spelling.items() if k != "sparsity"}
        return ", ".join([f"{name} {100 * self.level:g} %", *(f"{k} {v}" for k, v in rest.items())])

    @property
    def ranked(self) -> Method | None:
        """The method with magnitudes as scores, which need no gradients."""
        if self.method is None or "criterion" not in {f.name for f in fields(self.method)}:
            return self.method
        return replace(self.method, criterion="magnitude")  # type: ignore[call-arg]


def candidates_of(methods: Sequence[Method], levels: Sequence[float]) -> list[Candidate]:
    """Return dense and each of ``methods`` at each of ``levels``, sparser ones later.

    Raises
    ------
    InputError
        There is no method or no level, one decides for several layers at once, or a level is no
        fraction of zeros.
    """
    if not methods or not levels:
        raise InputError("plan", "got no method or no level", "at least one of each")
    for level in levels:
        if not 0 < level < 1:
            raise InputError("plan, levels", str(level), "fractions of zeros, like 0.75")
    found = [Candidate(None, 0, 0.0)]
    for family, method in enumerate(methods, 1):
        for level in sorted(set(levels)):
            found.append(Candidate(at_sparsity(method, level), family, level))
    return found
