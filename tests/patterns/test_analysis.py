"""One scan for each column order that differs, made once."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.analysis import Analysis
from tvm_sparse.patterns.detector import detect, detection


def test_a_convolution_has_two_scans():
    weight = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(np.float32)
    analysis = Analysis(weight)
    assert analysis.orders == ("ihw", "hwi")
    assert (analysis.scan("ihw").weight == weight.reshape(2, 12)).all()
    assert (analysis.scan("hwi").weight == np.moveaxis(weight, 1, -1).reshape(2, 12)).all()
    assert analysis.scan("ihw").taps == 4
    assert analysis.scan("hwi") is analysis.scan("hwi")


@pytest.mark.parametrize(
    ("shape", "depthwise"), [((6, 5), False), ((6, 5, 1, 1), False), ((6, 1, 3, 3), True)]
)
def test_equal_orders_are_one_scan(shape, depthwise):
    analysis = Analysis(np.ones(shape, np.float32), depthwise=depthwise)
    assert analysis.orders == ("ihw",)
    assert analysis.scan("hwi") is analysis.scan("ihw")
    assert analysis.scan("hwi").taps == 1


def test_the_detector_uses_the_scans_of_the_candidates():
    weight = np.zeros((32, 32), np.float32)
    weight[:, ::4] = 1
    analysis = Analysis(weight)
    scan = analysis.scan("hwi")
    assert detection(analysis) == detect(weight)
    assert scan._found, "the fits of every family are remembered there"


@pytest.mark.parametrize(
    ("shape", "depthwise"), [((4,), False), ((4, 0), False), ((4, 4), True), ((4, 2, 3, 3), True)]
)
def test_other_shapes_are_refused(shape, depthwise):
    with pytest.raises(InputError, match=r"fc\.weight: shape"):
        Analysis(np.ones(shape), depthwise=depthwise, name="fc.weight")
