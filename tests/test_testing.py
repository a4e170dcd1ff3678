"""The public checks accept every built-in kind and a third party's, and find what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from tests.extension.striped import STRIPED, Striped, StripedFormat
from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Evidence, Fit
from tvm_sparse.patterns.cost import modelled
from tvm_sparse.patterns.detector import detect
from tvm_sparse.registry import kinds, register, unregister
from tvm_sparse.testing import check_kind


@pytest.mark.grid
@pytest.mark.parametrize("name", sorted(kinds()))
def test_built_in_kinds_pass(name):
    check_kind(kinds()[name])


def test_a_third_party_kind_passes_and_is_found():
    check_kind(STRIPED)
    register(STRIPED)
    try:
        weight = np.ones((30, 40)) * (np.arange(40) % 3 == 0)
        found = [fit.pattern for fit in detect(weight).candidates]
        assert Striped() in found
        with pytest.raises(InputError, match="registered already"):
            register(STRIPED)
    finally:
        unregister("striped")
    assert "striped" not in kinds()


def broken(base, **methods):
    """Return a subclass of ``base`` with other methods, as a dataclass."""
    return dataclass(frozen=True)(type(base.__name__, (base,), methods))


def near_miss(weight):
    return Fit(Striped(), 0.5, Evidence("column", 3, 4, "column 2"), cost=modelled(4, 2, 0, 4))


PATTERN_FAULTS = {
    "project gives float64 flags": {"project": lambda self, s, sparsity=None: np.zeros(s.shape)},
    "project accepts NaN": {"project": lambda self, s, sparsity=None: s > 0.9},
    "its pattern is of kind 'other'": {"kind": "other"},
    "describe\\(\\) is empty": {"describe": lambda self: ""},
    "detect does not find striped": {"detect": classmethod(lambda cls, weight: None)},
    "detect finds a Striped": {
        "detect": classmethod(lambda cls, weight: replace(near_miss(weight), pattern=Striped()))
    },
}


def change_scores(self, scores, sparsity=None):
    scores[0] = 1
    return scores > 0.9


def random_mask(self, scores, sparsity=None):
    return np.random.default_rng().random(scores.shape) < 0.5


PATTERN_FAULTS["project changes the scores"] = {"project": change_scores}
PATTERN_FAULTS["another mask the second time"] = {"project": random_mask}


@pytest.mark.parametrize("fault", PATTERN_FAULTS)
def test_faults_of_patterns_are_named(fault):
    kind = replace(STRIPED, pattern=broken(Striped, **PATTERN_FAULTS[fault]))
    with pytest.raises(AssertionError, match=f"kind 'striped': .*{fault}"):
        check_kind(kind)


def found(**changes):
    """Return a detect method that gives a fit with some fields changed."""

    def detect(cls, weight):
        evidence = Evidence("column", 4, changes.pop("total", 4), "column 2")
        fit = Fit(cls(), 0.5, evidence, cost=modelled(4, 2, 0, 4))
        return replace(fit, **changes)

    return classmethod(detect)


def test_faults_of_detection_are_named():
    from tvm_sparse.patterns.cost import UNKNOWN

    faults = {
        "its own mask is a near miss: striped but for 1 of 5 columns": found(total=5),
        "a fit has no cost": found(cost=UNKNOWN),
        "a random mask is claimed to be striped": found(),
    }
    for fault, method in faults.items():
        with pytest.raises(AssertionError, match=fault):
            check_kind(replace(STRIPED, pattern=broken(Striped, detect=method)))


def test_a_found_pattern_must_describe_itself():
    def detect(cls, weight):
        return replace(near_miss(weight), pattern=silent(), evidence=Evidence("column", 4, 4))

    family = broken(Striped, detect=classmethod(detect))
    silent = broken(family, describe=lambda self: "")
    with pytest.raises(AssertionError, match=r"describe\(\) of a found pattern is empty"):
        check_kind(replace(STRIPED, pattern=family))


def change_matrix(self, matrix):
    arrays = StripedFormat.encode(self, matrix)
    matrix[0, 0] += 1
    return arrays


FORMAT_FAULTS = {
    "encode changes the matrix": {"encode": change_matrix},
    "nbytes is 1, the arrays take": {"nbytes": lambda self, dtype="float32": 1},
    "differs from w": {
        "decode": lambda self, a: StripedFormat.decode(self, a) * a["values"].dtype.type(2)
    },
    "decode gives float64": {
        "decode": lambda self, a: StripedFormat.decode(self, a).astype(np.float64)
    },
    "encode accepts NaN": {
        "encode": lambda self, m: StripedFormat.encode(self, np.where(m == m, m, 1).astype(m.dtype))
    },
}


@pytest.mark.parametrize("fault", FORMAT_FAULTS)
def test_faults_of_formats_are_named(fault):
    kind = replace(STRIPED, formats=(broken(StripedFormat, **FORMAT_FAULTS[fault]),))
    with pytest.raises(AssertionError, match=f"kind 'striped': StripedFormat.*{fault}"):
        check_kind(kind)


def test_formats_may_refuse_with_a_reason():
    def refuse(cls, matrix):
        raise InputError("striped", "no stripes")

    check_kind(replace(STRIPED, formats=(broken(StripedFormat, of=classmethod(refuse)),)))


def test_faults_of_operators_are_named():
    balanced = kinds()["balanced"]

    def swapped(contraction, scan, target):
        yield "a reason why something else does not fit"
        for candidate in balanced.operators["llvm"](contraction, scan, target):
            zeros = ZeroFormat(candidate.format)
            yield replace(candidate, format=zeros)

    with pytest.raises(AssertionError, match="operator 'balanced' computes something else"):
        check_kind(replace(balanced, operators={"llvm": swapped}))


@dataclass(frozen=True)
class ZeroFormat:
    """Keeps the matrix, but gives kernels zeros."""

    format: object

    def nbytes(self, dtype):
        return self.format.nbytes(dtype)

    def encode(self, matrix):
        arrays = self.format.encode(matrix)
        self.values.append(arrays["values"])
        return {**arrays, "values": np.zeros_like(arrays["values"])}

    def decode(self, arrays):
        return self.format.decode({**arrays, "values": self.values[-1]})

    values: ClassVar[list] = []
