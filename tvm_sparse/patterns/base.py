"""What every sparsity pattern offers: project scores to a mask, detect itself, describe itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Evidence:
    """Why a pattern is (nearly) there.

    ``agree`` of ``total`` units (banks, blocks, groups: ``unit``) follow the pattern;
    ``first_violation`` names the first that does not; ``padding`` is the share of stored values
    that would be explicit zeros if the violators were padded; ``chance`` bounds the probability
    that a random mask with as many zeros agrees as well.
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
    convolution in which the pattern was found (see :mod:`tvm_sparse.patterns.lowering`).
    """

    pattern: Pattern
    sparsity: float
    evidence: Evidence
    order: str = "ihw"


@dataclass(frozen=True)
class Pattern(ABC):
    """A family of masks. Fields of a subclass are the pattern's parameters.

    Weight matrices are ``(out_features, in_features)``; convolutions are lowered to two
    dimensions first, depthwise convolutions to ``(channels, kh * kw)``.
    """

    kind: ClassVar[str]

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

    @abstractmethod
    def describe(self) -> str:
        """Return a phrase for reports, like ``"balanced 4 of 16"``."""
