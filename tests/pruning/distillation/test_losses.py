"""The terms of a loss: which modules they compare, and their values by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.zoo import package
from tvm_sparse.pruning.distillation.losses import (
    Pair,
    attentions_of,
    compared_blocks,
    cosine,
    divergence,
    embeddings,
    loss_of,
    relative_error,
    spaced,
)


def transformer():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def test_attention_is_found_in_the_blocks():
    assert attentions_of(transformer()) == ["layers.0.self_attn", "layers.1.self_attn"]
    assert attentions_of(nn.Linear(2, 2)) == []


def test_the_outermost_attention_of_transformers_counts():
    transformers = package("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.BertConfig(vocab_size=50, intermediate_size=64, **sizes)
    found = attentions_of(transformers.BertModel(config, add_pooling_layer=False))
    assert found == ["encoder.layer.0.attention", "encoder.layer.1.attention"]


def test_layers_stand_for_blocks_where_nothing_is_repeated():
    assert compared_blocks(transformer()) == ["layers.0", "layers.1"]
    layers = [nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(3)]
    plain = nn.Sequential(nn.Conv1d(1, 2, 1), *(layer[0] for layer in layers), nn.LayerNorm(2))
    assert compared_blocks(plain) == ["0", "1", "2", "3"]
    assert spaced([str(i) for i in range(16)]) == ["1", "3", "5", "7", "9", "11", "13", "15"]
    assert compared_blocks(nn.ReLU()) == spaced([]) == []


def test_values_by_hand():
    s, t = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    assert relative_error([Pair([s], [t], None)]) == pytest.approx((4 + 16) / 10)
    angles = [1 / 5**0.5, 3 / 5]
    assert cosine([Pair([s], [t], None)]) == pytest.approx(1 - sum(angles) / 2)
    p, q = s.softmax(-1), t.softmax(-1)
    assert divergence([Pair([s], [t], None)]) == pytest.approx(float((q * (q / p).log()).sum() / 2))


@pytest.mark.parametrize("compare", [relative_error, cosine, divergence])
def test_batches_of_one_sample_are_compared_as_one_of_several(compare):
    s, t = torch.randn(4, 6), torch.randn(4, 6)
    whole = compare([Pair([s], [t], None)])
    parts = compare([Pair([a], [b], None) for a, b in zip(s.split(1), t.split(1), strict=True)])
    torch.testing.assert_close(parts, whole)


def test_padding_does_not_count_in_embeddings():
    states = torch.arange(12.0).view(2, 3, 2)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    found = embeddings(states, {"attention_mask": mask})
    assert torch.equal(found, torch.stack([states[0, :2].mean(0), states[1, 0]]))
    assert torch.equal(embeddings(states, {}), states.mean(1))
    assert embeddings(torch.zeros(2, 3, 4, 5), None).shape == (2, 60)


def test_terms_are_weighted_and_one_module_is_run_once():
    model = transformer()
    loss = loss_of(model, {"blocks": 2.0, "layers.1": 1.0, "outputs": 1.0})
    assert loss.names == ("layers.0", "layers.1", "")
    s = [[torch.full((1, 2), 2.0)], [torch.full((1, 2), 3.0)], [torch.full((1, 2), 1.0)]]
    t = [[torch.ones(1, 2)]] * 3
    assert loss([s], [t], [None]) == pytest.approx(2 * (1 + 4) + 4 + 0)
