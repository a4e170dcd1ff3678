"""What every sparsity pattern offers: project scores to a mask, detect itself, describe itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tvm_sparse.patterns.cost import UNKNOWN, Cost
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.scan import Scan

Array = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Evidence:
    """Why a pattern is (nearly) there.

    ``agree`` of ``total`` units (banks, blocks, groups: ``unit``) follow the pattern;
    ``first_violation`` names the first that does not; ``padding`` is the fraction of stored values
    that are explicit zeros once all units, violators too, are padded; ``chance`` bounds the
    probability that a random mask with as many zeros agrees as well, for all parameters tried.
    """

    unit: str
    agree: int
    total: int
    first_violation: str | None = None
    padding: float = 0.0
    chance: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether every unit follows the pattern."""
        return self.agree == self.total


@dataclass(frozen=True)
class Fit:
    """A pattern found in a weight matrix, with its evidence.

    ``sparsity`` is the fraction of zeros of the matrix; ``order`` the column order of the lowered
    convolution in which the pattern was found (see :mod:`tvm_sparse.patterns.lowering`); ``cost``
    what the matrix would cost if stored so, all violators padded.
    """

    pattern: Pattern
    sparsity: float
    evidence: Evidence
    order: str = "ihw"
    cost: Cost = UNKNOWN

    def summary(self) -> str:
        """Return a sentence for reports: the pattern, what agrees, the first violation, padding."""
        found, unit = self.evidence, self.evidence.unit
        text = self.pattern.describe()
        if not found.exact:
            text += f" but for {found.total - found.agree:,} of {found.total:,} {unit}s"
            text += f"; first at {found.first_violation}"
        if found.padding:
            text += f"; padding costs {100 * found.padding:.2g} %"
        return text


@dataclass(frozen=True)
class Pattern(ABC):
    """A family of masks. Fields of a subclass are the pattern's parameters.

    Weight matrices are ``(out_features, in_features)``; convolutions are lowered to two
    dimensions first, depthwise convolutions to ``(channels, kh * kw)``.
    """

    kind: ClassVar[str]
    ordered: ClassVar[bool] = True
    """Whether the order of the columns matters: such patterns are looked for in both orders."""
    depthwise: ClassVar[bool | None] = False
    """Whether the pattern is for weights of depthwise convolutions; ``None``: for all weights."""

    @abstractmethod
    def project(self, scores: Array, sparsity: float | None = None) -> Mask:
        """Return the mask (True = kept) of this pattern that keeps the largest ``scores``.

        Parameters
        ----------
        scores
            Importance of each weight, ``(rows, cols)``, non-negative, finite.
        sparsity
            Wanted fraction of zeros; ``None`` takes it from the pattern's own parameters.
        """

    @classmethod
    @abstractmethod
    def detect(cls, weight: Array) -> Fit | None:
        """Return the best fit of this family to the zeros of ``weight`` ``(rows, cols)``, if any.

        A fit with ``evidence.exact`` is a verdict; any other is a near miss.
        """

    @classmethod
    def find(cls, scan: Scan) -> list[Fit]:
        """Return all fits of this family to a scanned weight; by default that of :meth:`detect`."""
        fit = cls.detect(scan.weight)
        return [] if fit is None else [fit]

    @classmethod
    def example(cls) -> Pattern:
        """Return a typical instance, for :func:`tvm_sparse.testing.check_kind`."""
        return cls()

    def units(self) -> tuple[int, int]:
        """Return rows and columns of what the pattern counts in; (0, 0) if in nothing."""
        return 0, 0

    @property
    def exchange(self) -> Exchange | None:
        """What may change places in a mask of this pattern; ``None``: nothing is known."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """Return a phrase for reports, like ``"balanced 4 of 16"``."""


class ScannedPattern(Pattern):
    """A pattern that finds itself in a :class:`Scan`."""

    @classmethod
    @abstractmethod
    def find(cls, scan: Scan) -> list[Fit]:
        """Return every fit of this family that is more than chance, the preferred first."""

    @classmethod
    def detect(cls, weight: Array) -> Fit | None:
        """Return the preferred fit of this family to the zeros of ``weight`` ``(rows, cols)``."""
        return next(iter(cls.find(Scan(weight))), None)
