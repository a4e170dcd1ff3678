"""Models of transformers, timm and torchvision as they are, in both ways, against float64."""

from __future__ import annotations

import pytest
import torch

import tvm_sparse as ts
from benchmarks.cases.zoo_models import MODELS
from benchmarks.model_zoo import TOLERANCE, compiled
from tests import zoo

QUICK = ("recommender",)


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS],
)
def test_models_are_compiled_whole_and_right(name):
    found = compiled(name, "pruned")
    (graph,) = ts.partitions(found.fast).graphs
    assert len(graph.parts) == 1 and not graph.eager
    assert found.error < TOLERANCE and found.error_library < TOLERANCE
    assert any(d.chosen not in ("dense", "winograd") for d in found.library.decisions)


@pytest.mark.slow
def test_a_language_model_decodes_with_a_cache_that_grows():
    torch._dynamo.reset()
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 200}
    model = zoo.transformers_model(
        "GPT2LMHeadModel", "GPT2Config", **sizes, bos_token_id=0, eos_token_id=1
    )
    ids, name = torch.arange(2, 10)[None], zoo.cache_name(model)

    def scores(program):
        found, cache, token = [], None, ids
        for _ in range(6):
            out = program(input_ids=token, use_cache=True, **{name: cache})
            cache, token = out[name], out.logits[:, -1:].argmax(-1)
            found.append(out.logits)
        return found

    options = {"measure": False, "artifacts": False}
    fast = torch.compile(model, backend="tvm_sparse", options=options)
    with torch.no_grad():
        torch.testing.assert_close(scores(fast), scores(model), rtol=1e-4, atol=1e-5)
    graphs = ts.partitions(fast).graphs
    assert len(graphs) == 3  # the prompt, the first step, and all others
    assert all(len(graph.parts) == 1 and not graph.eager for graph in graphs)
