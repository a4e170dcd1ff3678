"""A damaged ONNX graph is one error that names it, or computes what onnxruntime computes."""

from __future__ import annotations

import pytest

from tests.damage.watch import bad, watched


def assert_handled(cases):
    found = watched("tests.damage.onnx_files", (), cases, seconds=120)
    assert [outcome.case for outcome in found] == list(cases)
    assert bad(found) == []
    results = [outcome.result for outcome in found]
    assert results.count("refused") > len(found) / 4 and "right" in results


def test_some_damages():
    assert_handled(range(5, 1200, 120))


@pytest.mark.slow
def test_more_damages():
    assert_handled(range(3000))
