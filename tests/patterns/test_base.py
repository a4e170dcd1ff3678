"""Fits speak in sentences; a family may implement only detect."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Evidence, Fit, Pattern
from tvm_sparse.patterns.scan import Scan


def test_summary():
    exact = Fit(Balanced(16, 4), 0.75, Evidence("bank", 64, 64))
    assert exact.summary() == "balanced 4 of 16"
    padded = Fit(Balanced(16, 4), 0.8, Evidence("bank", 64, 64, padding=0.2))
    assert padded.summary() == "balanced 4 of 16; padding costs 20 %"
    near = Fit(Balanced(16, 4), 0.75, Evidence("bank", 65533, 65536, "row 17, bank 3", 0.004))
    assert near.summary() == (
        "balanced 4 of 16 but for 3 of 65,536 banks; first at row 17, bank 3; padding costs 0.4 %"
    )


@dataclass(frozen=True)
class Diagonal(Pattern):
    kind: ClassVar[str] = "diagonal"

    def project(self, scores, sparsity=None):
        return np.eye(*scores.shape, dtype=bool)

    @classmethod
    def detect(cls, weight):
        off = weight[~np.eye(*weight.shape, dtype=bool)]
        return None if off.any() else Fit(cls(), 0.0, Evidence("weight", 1, 1))

    def describe(self):
        return "diagonal"


def test_find_defaults_to_detect():
    assert [fit.pattern for fit in Diagonal.find(Scan(np.eye(4)))] == [Diagonal()]
    assert Diagonal.find(Scan(np.ones((4, 4)))) == []
