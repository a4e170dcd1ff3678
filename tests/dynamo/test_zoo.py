"""Models of transformers, timm and torchvision as they are, in both ways, against float64."""

from __future__ import annotations

import pytest

import tvm_sparse as ts
from benchmarks.model_zoo import TOLERANCE, compiled
from benchmarks.zoo_models import MODELS

QUICK = ("recommender",)


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS],
)
def test_models_are_compiled_whole_and_right(name):
    found = compiled(name, "pruned")
    (graph,) = ts.explain(found.fast).graphs
    assert len(graph.parts) == 1 and not graph.eager
    assert found.error < TOLERANCE and found.error_library < TOLERANCE
    assert any(d.chosen not in ("dense", "winograd") for d in found.library.decisions)
