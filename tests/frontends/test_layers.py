"""Layers of a module: every weight once, with its kind, orientation and name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.ao.pruning import WeightNormSparsifier
from torch.nn.utils import parametrizations, prune

from tests import zoo
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.modules.layers import module_layers


def kinds(module: nn.Module) -> dict[str, str]:
    return {layer.name: layer.layer_type for layer in module_layers(module)}


def test_convolutions():
    module = nn.Sequential(
        nn.Conv2d(4, 8, 3),
        nn.Conv2d(8, 16, 3, groups=8),
        nn.Conv1d(16, 16, 3, groups=4),
        nn.ConvTranspose2d(16, 8, 3),
        nn.BatchNorm2d(8),
    )
    found = {"0": "conv2d", "1": "depthwise conv2d", "2": "grouped conv1d"}
    assert kinds(module) == {**found, "3": "transposed conv2d"}
    assert [layer.depthwise for layer in module_layers(module)] == [False, True, False, False]


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions_have_outputs_first(groups):
    module = nn.ConvTranspose2d(4, 6, (2, 3), groups=groups)
    with torch.no_grad():
        module.weight.copy_(torch.arange(module.weight.numel()).reshape(module.weight.shape))
    weight = module_layers(module)[0].read()
    assert weight.shape == (6, 4 // groups, 2, 3)
    per_group = 6 // groups
    for output in range(6):
        group, within = divmod(output, per_group)
        inputs = slice(group * 4 // groups, (group + 1) * 4 // groups)
        assert np.array_equal(weight[output], module.weight.detach()[inputs, within])


def test_recurrent_layers():
    lstm = kinds(nn.LSTM(4, 8, proj_size=3))
    assert lstm == {
        "weight_ih_l0": "lstm input gates",
        "weight_hh_l0": "lstm hidden gates",
        "weight_hr_l0": "lstm projection",
    }
    assert set(kinds(nn.GRU(4, 8)).values()) == {"gru input gates", "gru hidden gates"}
    assert set(kinds(nn.RNN(4, 8)).values()) == {"rnn input gates", "rnn hidden gates"}
    assert set(kinds(nn.GRUCell(4, 8)).values()) == {"gru input gates", "gru hidden gates"}


def test_attention():
    found = kinds(nn.TransformerEncoderLayer(16, 2, dim_feedforward=32))
    assert found == {
        "self_attn.in_proj_weight": "attention projection",
        "self_attn.out_proj": "attention projection",
        "linear1": "linear",
        "linear2": "linear",
    }
    apart = kinds(nn.MultiheadAttention(16, 2, kdim=8, vdim=8))
    assert set(apart.values()) == {"attention projection"} and len(apart) == 4


def test_embeddings_and_small_parameters_are_no_layers():
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(100, 8)
            self.token = nn.Parameter(torch.zeros(1, 1, 8))
            self.mix = nn.Parameter(torch.zeros(8, 4))
            self.row = nn.Parameter(torch.zeros(1, 8))

    assert kinds(Own()) == {"mix": "parameter"}


def test_a_layer_without_a_shape_is_named():
    with pytest.raises(InputError, match="layer '0': has no shape yet"):
        module_layers(nn.Sequential(nn.LazyLinear(4)))


def test_shared_weights_and_modules_come_once():
    first = nn.Linear(8, 8)
    module = nn.ModuleDict({"a": first, "b": nn.Linear(8, 8), "c": first})
    module["b"].weight = first.weight
    (layer,) = module_layers(module)
    assert layer.name == "a" and layer.shared_with == ("b", "c")


def test_masked_weights_are_effective_and_named_plainly():
    module = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8))
    prune.l1_unstructured(module[0], "weight", 0.5)
    sparsifier = WeightNormSparsifier(1.0, (1, 4), 3)
    sparsifier.prepare(module, [{"tensor_fqn": "1.weight"}])
    sparsifier.step()
    parametrizations.weight_norm(module[2])
    layers = module_layers(module)
    assert [layer.weight for layer in layers] == [f"{i}.weight" for i in range(4)]
    assert [layer.storage for layer in layers] == ["masked", "masked", "masked", "dense"]
    share = [float(np.mean(layer.read() == 0)) for layer in layers]
    assert share == [0.5, 0.75, 0.0, 0.0]
    assert np.array_equal(layers[2].read(), module[2].weight.detach())


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
def test_sparse_tensors_stay_sparse_until_read():
    module = nn.Linear(8, 8)
    dense = module.weight.detach() * (torch.rand(8, 8) < 0.5)
    module.weight = nn.Parameter(dense.to_sparse_csr(), requires_grad=False)
    (layer,) = module_layers(module)
    assert layer.storage == "sparse csr" and module.weight.layout == torch.sparse_csr
    assert np.array_equal(layer.read(), dense)


def test_bert_and_gpt2_of_transformers():
    transformers = zoo.package("transformers")
    small = {"vocab_size": 100, "bos_token_id": 0, "eos_token_id": 1}
    bert = transformers.BertModel(
        transformers.BertConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            vocab_size=100,
        )
    )
    found = kinds(bert)
    assert len(found) == 13 and found["encoder.layer.1.output.dense"] == "linear"
    assert found["encoder.layer.0.attention.self.query"] == "attention projection"
    gpt = transformers.GPT2Model(transformers.GPT2Config(n_embd=32, n_layer=1, n_head=2, **small))
    shapes = {layer.name: layer.read().shape for layer in module_layers(gpt)}
    assert shapes["h.0.attn.c_attn"] == (96, 32) and shapes["h.0.mlp.c_proj"] == (32, 128)
