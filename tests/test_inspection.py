"""inspect: each layer's sparsity and pattern, whatever form the model comes in."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune

import tvm_sparse as ts
from tests import zoo
from tests.frontends.networks import onnx_file, sparse_network
from tvm_sparse.inspection import Report


def zero_most(module: nn.Module, keep: int = 4, bank: int = 16) -> None:
    """Zero all but the first ``keep`` of every ``bank`` consecutive weights of a row, by masks."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and layer.in_features % bank == 0:
            mask = torch.zeros_like(layer.weight).view(-1, bank)
            order = torch.rand_like(mask).argsort(dim=1)
            mask.scatter_(1, order[:, :keep], 1.0)
            prune.custom_from_mask(layer, "weight", mask.view_as(layer.weight))


def sparsities(report: Report) -> dict[str, float]:
    return {row.layer: row.sparsity for row in report.rows}


def measured(module: nn.Module) -> dict[str, float]:
    """Return the share of zeros of each convolution and linear layer, as PyTorch has them."""
    types = (nn.Conv2d, nn.Linear)
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, types)}
    return {name: float((layer.weight == 0).double().mean()) for name, layer in layers.items()}


def test_resnet18_with_masks_attached():
    module = zoo.torchvision_model("resnet18")
    layers = [m for m in module.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    for position, layer in enumerate(layers):
        prune.l1_unstructured(layer, "weight", 0.3 + 0.02 * position)
    report = ts.inspect(module)
    assert sparsities(report) == pytest.approx(measured(module))
    assert len(report.rows) == 21
    assert {row.storage for row in report.rows} == {"masked"}
    assert {row.pattern for row in report.rows} == {"unstructured"}


def test_balanced_layers_are_found_with_their_evidence():
    module = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 48))
    zero_most(module)
    first, second = ts.inspect(module).rows
    assert first.pattern == second.pattern == "balanced 4 of 16"
    assert first.sparsity == 0.75 and first.shape == (32, 64)
    assert first.evidence.startswith("all 128 banks")
    bank = module[0].weight_mask[17, 48:64]
    bank[int(bank.argmin())] = 1
    (first, _) = ts.inspect(module).rows
    near = [fit for fit in (first.fit, *first.near_misses) if not fit.evidence.exact]
    assert near and near[0].pattern.kind == "balanced"
    assert near[0].evidence.agree == near[0].evidence.total - 1
    assert near[0].evidence.first_violation.startswith("row 17")
    assert "nearly balanced" in str(Report("net", (first,)))


def test_the_same_layers_from_every_form_of_a_model(tmp_path):
    module, x = sparse_network()
    program = torch.export.export(module, (x,))
    torch.export.save(program, tmp_path / "m.pt2")
    save_file(module.state_dict(), tmp_path / "w.safetensors")
    sources = [
        module,
        program,
        ts.load(module, x),
        tmp_path / "m.pt2",
        onnx_file(tmp_path / "m.onnx", module),
        tmp_path / "w.safetensors",
    ]
    expected = [
        ("0", "conv2d", (4, 2, 3, 3)),
        ("2", "depthwise conv2d", (4, 1, 3, 3)),
        ("5", "linear", (8, 64)),
        ("6", "linear", (4, 8)),
    ]
    first = ts.inspect(module)
    for source in sources:
        report = ts.inspect(source)
        assert [(r.layer, r.kind, r.shape) for r in report.rows] == expected
        assert [r.fit for r in report.rows] == [r.fit for r in first.rows]
        assert sparsities(report) == pytest.approx(measured(module))


def test_a_factory_with_weights(tmp_path):
    factory = "tests.frontends.networks:pair"
    values = {"0.weight": torch.zeros(16, 8), "0.bias": torch.zeros(16)}
    values |= {"2.weight": torch.ones(4, 16), "2.bias": torch.zeros(4)}
    save_file(values, tmp_path / "w.safetensors")
    report = ts.inspect(factory, weights=tmp_path / "w.safetensors")
    assert report.model == factory
    assert sparsities(report) == {"0": 1.0, "2": 0.0}
    assert report.sparsity == pytest.approx(128 / 192)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_is_named(value):
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    with torch.no_grad():
        module[1].weight[2, 3] = value
    with pytest.raises(ts.InputError, match=r"1\.weight"):
        ts.inspect(module)


def test_the_model_is_unchanged():
    module, _ = sparse_network()
    prune.l1_unstructured(module[5], "weight", 0.8)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    module.train()
    ts.inspect(module)
    assert module.training and list(module.state_dict()) == list(before)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())


def test_progress_is_told_after_every_layer():
    seen = []
    module, _ = sparse_network()
    ts.inspect(module, progress=lambda *report: seen.append(report))
    assert seen == [("inspecting", done, 4) for done in (1, 2, 3, 4)]


def test_what_is_no_model():
    with pytest.raises(ts.InputError, match="model: is a dict"):
        ts.inspect({})


def test_an_attention_encoder():
    module = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 2, 64), 2, enable_nested_tensor=False
    )
    zero_most(module)
    prune.l1_unstructured(module.layers[0].self_attn, "in_proj_weight", 0.5)
    report = ts.inspect(module)
    found = {row.layer: row for row in report.rows}
    assert len(found) == 8
    assert found["layers.0.self_attn.in_proj_weight"].sparsity == 0.5
    assert found["layers.0.self_attn.in_proj_weight"].kind == "attention projection"
    assert found["layers.1.linear1"].pattern == "balanced 4 of 16"


def test_an_lstm_keeps_its_gates_names():
    module = nn.LSTM(20, 25)
    prune.random_unstructured(module, "weight_hh_l0", 0.8)
    found = {row.layer: row for row in ts.inspect(module).rows}
    assert found["weight_hh_l0"].sparsity == 0.8
    assert found["weight_hh_l0"].kind == "lstm hidden gates"
    assert found["weight_ih_l0"].sparsity == 0.0


def test_a_bert_configuration():
    transformers = zoo.package("transformers")
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.BertConfig(num_hidden_layers=2, vocab_size=100, **sizes)
    module = transformers.BertModel(config)
    zero_most(module, keep=2, bank=4)
    report = ts.inspect(module)
    assert len(report.rows) == 13
    assert {row.pattern for row in report.rows} == {"balanced 2 of 4"}
    kinds = [row.kind for row in report.rows]
    assert kinds.count("attention projection") == 8 and kinds.count("linear") == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"), [("vgg16", 16), ("mobilenet_v2", 53), ("resnet50", 54), ("vit_b_16", 50)]
)
def test_networks_of_torchvision(name, count):
    module = zoo.torchvision_model(name)
    for position, layer in enumerate(module.modules()):
        if isinstance(layer, nn.Conv2d | nn.Linear):
            prune.random_unstructured(layer, "weight", 0.2 + 0.5 * (position % 7) / 7)
    report = ts.inspect(module)
    found = sparsities(report)
    assert len(found) == count
    for layer, share in measured(module).items():
        assert found[layer] == pytest.approx(share)


def test_a_network_of_timm():
    module = zoo.timm_model("test_efficientnet")
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            prune.l1_unstructured(layer, "weight", 0.5)
    report = ts.inspect(module)
    assert sparsities(report) == pytest.approx(measured(module))
    depthwise = [row for row in report.rows if row.kind == "depthwise conv2d"]
    assert depthwise and all(row.shape[1] == 1 for row in depthwise)


def test_json_is_plain_and_complete():
    module, _ = sparse_network()
    plain = json.loads(json.dumps(ts.inspect(module).to_json()))
    assert plain["model"] == "Sequential" and len(plain["layers"]) == 4
    layer = plain["layers"][2]
    assert layer["layer"] == "5" and layer["shape"] == [8, 64]
    assert layer["fit"]["evidence"]["agree"] <= layer["fit"]["evidence"]["total"]
    assert np.isclose(layer["sparsity"], 0.5)
