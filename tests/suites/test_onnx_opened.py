"""A fixed part of ONNX's node tests with an open axis with every run, all as slow tests."""

from __future__ import annotations

import pytest

from tests.suites import onnx_opened
from tests.suites.onnx_nodes import tests as node_tests
from tests.suites.outcomes import RIGHT, broken
from tests.suites.workers import cases, results

SUITE = "tests.suites.onnx_opened"
EVERY = 160


def test_an_axis_is_opened_in_the_type_of_what_may_be_missing():
    model = node_tests()["test_optional_has_element_optional_input"].model
    plain = onnx_opened._with_axes(model, None)
    (value,) = plain.graph.input
    assert value.type.HasField("optional_type")
    assert not onnx_opened._tensor_type(value).HasField("shape")


def test_what_references_dispute_is_not_judged():
    found = onnx_opened.check("test_dynamicquantizelinear")  # one value of zero has any scale
    assert found is not None and found.outcome == RIGHT


@pytest.mark.timeout(1200)
def test_a_few_are_right_or_refused():
    assert broken(results(SUITE, cases(SUITE)[::EVERY])) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_all_are_right_or_refused():
    assert broken(results(SUITE, cases(SUITE))) == []
