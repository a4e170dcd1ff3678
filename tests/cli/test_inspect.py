import pytest
import torch
from torch import nn


def test_the_pattern_of_every_layer_is_found(call_json, pt2):
    first, second = call_json("inspect", pt2)["layers"]
    assert (first["layer"], first["sparsity"]) == ("0", 0.75)
    assert first["fit"]["parameters"] == {"bank": 16, "keep": 4}
    assert (second["layer"], second["sparsity"]) == ("2", 0.0)


def test_the_table_says_the_same(call, pt2):
    printed = call("inspect", pt2).stdout
    assert "75.0 %" in printed
    assert "balanced 4 of 16" in printed


def test_a_factory_needs_no_shape(call_json, here, small):
    from safetensors.torch import save_file

    assert [r["sparsity"] for r in call_json("inspect", "factories:small")["layers"]] == [0, 0]
    save_file(small.state_dict(), here / "w.safetensors")
    filled = call_json("inspect", "factories:small", "--weights", "w.safetensors")
    assert [r["sparsity"] for r in filled["layers"]] == [0.75, 0]


RESNET = """
import torch
from torch import nn
from torch.nn.utils import prune
from tests.zoo import torchvision_model

def resnet18():
    model = torchvision_model("resnet18")
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            prune.l1_unstructured(module, "weight", amount=0.6)
    return model
"""


def test_masks_that_are_still_attached_count(call_json, here):
    """torchvision's resnet18 under torch.nn.utils.prune: each layer's share of zeros is right."""
    (here / "resnets.py").write_text(RESNET, encoding="utf-8")
    import resnets

    expected = {
        name: float((module.weight == 0).double().mean())
        for name, module in resnets.resnet18().named_modules()
        if isinstance(module, nn.Conv2d | nn.Linear)
    }
    found = {r["layer"]: r["sparsity"] for r in call_json("inspect", "resnets:resnet18")["layers"]}
    assert found == pytest.approx(expected, abs=1e-9)
    assert sum(value > 0.59 for value in found.values()) == 20


def test_a_weight_that_is_not_finite_is_an_error(call, here):
    broken = nn.Sequential(nn.Linear(4, 2))
    with torch.no_grad():
        broken[0].weight[1, 2] = float("nan")
    torch.export.save(torch.export.export(broken, (torch.rand(1, 4),)), here / "nan.pt2")
    for command in (["inspect"], ["compile", "--dry-run"]):
        error = call(*command, here / "nan.pt2", status=1).stderr
        assert "0.weight" in error or "layer '0'" in error
        assert error.count("\n") == 1


def test_a_file_that_is_no_pt2_is_an_error(call, here):
    (here / "text.pt2").write_text("hello", encoding="utf-8")
    error = call("inspect", here / "text.pt2", status=1).stderr
    assert "text.pt2" in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
