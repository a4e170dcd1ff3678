"""How the sparsity rises from step to step, as a fraction of the final target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tvm_sparse.errors import InputError


class Schedule(Protocol):
    """Says which fraction of the target is due when ``step()`` is called for the ``n``-th time."""

    def due(self, step: int) -> float | None:
        """Return the share in [0, 1] due at ``step`` (0, 1, ...), ``None`` to leave masks alone."""


@dataclass(frozen=True)
class OneShot:
    """The whole target at step ``start``, which is the first one unless it is given."""

    start: int = 0

    def __post_init__(self) -> None:
        """Refuse a step that never comes."""
        if self.start < 0:
            raise InputError("one-shot schedule", f"start {self.start}", "start >= 0")

    def due(self, step: int) -> float | None:
        """Return 1 at step ``start``, otherwise ``None``."""
        return 1.0 if step == self.start else None


@dataclass(frozen=True)
class Levels:
    """Given sparsities one after the other, the last being the target (Yao et al.: iterative).

    ``Levels([0.75, 0.9])`` with a target of 0.9 prunes to 75 %, then to 90 %.
    """

    sparsities: Sequence[float]

    def __post_init__(self) -> None:
        """Refuse levels that fall, or lie outside (0, 1]."""
        levels = tuple(self.sparsities)
        if not levels or list(levels) != sorted(levels) or not 0 < levels[0] <= levels[-1] <= 1:
            raise InputError("schedule levels", str(list(levels)), "rising sparsities in (0, 1]")

    def due(self, step: int) -> float | None:
        """Return the level of ``step`` over the last level; ``None`` after the last."""
        if step >= len(self.sparsities):
            return None
        return self.sparsities[step] / self.sparsities[-1]


@dataclass(frozen=True)
class Exponential:
    """``1 - (1 - (e - start) / total) ** exponent`` (Guo et al., Eq. 4 and 5), one step an epoch.

    Pruning happens at epochs ``start``, ``start + every``, ... and at ``total``. The paper's
    values are the defaults: 160 epochs in all, of which the first 20 are dense. As ``total`` counts
    the dense epochs too, the last share is ``1 - (start / total) ** exponent`` = 0.998, which is
    what the paper's tables show (49.90 % for a target of 50 %). ``start=0`` reaches 1 exactly.
    """

    total: int = 160
    start: int = 20
    every: int = 20
    exponent: float = 3.0

    def __post_init__(self) -> None:
        """Refuse lengths below one epoch."""
        if self.every < 1 or not 0 <= self.start < self.total or self.exponent <= 0:
            raise InputError(
                "exponential schedule",
                str(self),
                "every >= 1, 0 <= start < total, exponent > 0",
            )

    def due(self, step: int) -> float | None:
        """Return the share due at epoch ``step``; ``None`` between two pruning epochs."""
        since = step - self.start
        if since < 0 or step > self.total or (since % self.every and step != self.total):
            return None
        return 1.0 - (1.0 - since / self.total) ** self.exponent
