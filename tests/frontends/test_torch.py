"""nn.Module: exported from a copy with masks applied, batch static or dynamic."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.ao.pruning import WeightNormSparsifier
from torch.nn.utils import parametrizations, prune

import tvm_sparse as ts
from tests.frontends.running import largest_difference, run
from tests.modules import Apply
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.modules.torch import from_module


def network() -> nn.Sequential:
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 10)]
    return nn.Sequential(*layers).eval()


def images(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, 6, 6)


def zeros(weight: np.ndarray) -> float:
    return float(np.mean(weight == 0))


def test_outputs_are_those_of_pytorch_and_weights_keep_their_names():
    module, x = network(), images()
    model = from_module(module, x)
    assert largest_difference(model, module, x) < 1e-5
    assert list(model.weights) == [
        *("0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias"),
        *("1.running_mean", "1.running_var"),
    ]
    assert np.array_equal(model.weights["0.weight"], module[0].weight.detach())
    assert [str(s) for s in model.inputs] == ["input: float32[2, 3, 6, 6]"]
    assert [str(s) for s in model.outputs] == ["output: float32[2, 10]"]
    assert int(model.module["main"].attrs["num_input"]) == 1


def test_a_module_in_training_mode_is_imported_for_inference_and_stays_in_it():
    module = nn.Sequential(network(), nn.Dropout(0.5)).train()
    x = images()
    model = from_module(module, x)
    assert module.training and module[1].training
    assert largest_difference(model, module, x) < 1e-5


@pytest.mark.grid
@pytest.mark.parametrize("bounds", [True, (1, 8)])
@pytest.mark.parametrize("example", [1, 2])
def test_dynamic_batch_serves_every_size(bounds, example):
    module = network()
    model = from_module(module, images(example), dynamic_batch=bounds)
    assert model.inputs[0].shape == ("batch", 3, 6, 6)
    assert model.outputs[0].shape == ("batch", 10)
    for count in (1, 3, 8):
        assert largest_difference(model, module, images(count)) < 1e-5
    upper = model.module["main"].attrs.get("tir_var_upper_bound")
    assert upper is None if bounds is True else dict(upper) == {"batch": 8}


@pytest.mark.grid
@pytest.mark.parametrize(
    "layer",
    [
        nn.InstanceNorm2d(6, affine=True),
        nn.InstanceNorm2d(6, track_running_stats=True),
        nn.AdaptiveMaxPool2d((2, 3)),
        nn.AdaptiveMaxPool2d(3, return_indices=True),
    ],
    ids=str,
)
def test_layers_for_a_batch_of_any_size(layer):
    x = torch.randn(2, 6, 5, 7)
    library = ts.compile(
        ts.load(layer.eval(), (x,), dynamic_batch=True), config=ts.Config(measure=False)
    )
    for count in (1, 4):
        x = 10 + torch.randn(count, 6, 5, 7)
        torch.testing.assert_close(library(x), layer(x), rtol=1e-5, atol=1e-5)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, *, scale):
        return {"y": self.linear(x) * scale, "none": None, "pair": (x, scale)}


def test_keyword_examples_and_named_outputs():
    module, x, scale = Scaled().eval(), torch.randn(2, 4), torch.randn(4)
    model = from_module(module, {"x": x, "scale": scale}, dynamic_batch=True)
    assert [(s.name, s.shape) for s in model.inputs] == [("x", ("batch", 4)), ("scale", (4,))]
    assert [s.name for s in model.outputs] == ["y", "pair_0", "pair_1"]
    got = run(model, x, scale)
    assert np.allclose(got[0], module(x, scale=scale)["y"].detach(), atol=1e-6)


def test_no_dynamic_batch_without_a_leading_extent():
    class Constant(nn.Module):
        def forward(self, x):
            return x + 1

    with pytest.raises(InputError, match="no example input has a leading extent"):
        from_module(Constant(), torch.tensor(1.0), dynamic_batch=True)
    with pytest.raises(InputError, match="bounds"):
        from_module(network(), images(), dynamic_batch=(4, 2))


def test_dynamic_batch_through_any_signature():
    class Sum(nn.Module):
        def forward(self, *inputs):
            return inputs[0] @ inputs[1]

    module, table = Sum(), torch.randn(2, 3)
    model = from_module(module, (torch.randn(1, 2), table), dynamic_batch=True)
    assert [s.shape for s in model.inputs] == [("batch", 2), (2, 3)]
    assert largest_difference(model, module, torch.randn(5, 2), table) < 1e-5
    with pytest.raises(InputError, match="example inputs"):
        from_module(nn.Linear(2, 2), {"z": torch.ones(1, 2)}, dynamic_batch=True)


def prune_by_hooks(module: nn.Sequential) -> None:
    prune.l1_unstructured(module[0], "weight", 0.5)
    prune.ln_structured(module[4], "weight", 0.5, n=2, dim=0)
    prune.random_unstructured(module[4], "weight", 0.25)


def sparsify(module: nn.Sequential) -> WeightNormSparsifier:
    options = {"sparsity_level": 1.0, "sparse_block_shape": (1, 4), "zeros_per_block": 2}
    sparsifier = WeightNormSparsifier(**options)
    sparsifier.prepare(module, [{"tensor_fqn": "4.weight"}])
    sparsifier.step()
    return sparsifier


def test_attached_pruning_hooks_are_applied():
    module, x = network(), images()
    prune_by_hooks(module)
    model = from_module(module, x)
    assert zeros(model.weights["0.weight"]) == 0.5
    assert zeros(model.weights["4.weight"]) == pytest.approx(0.625, abs=1e-3)
    assert largest_difference(model, module, x) < 1e-5
    assert not any("mask" in name or "orig" in name for name in model.weights)


def test_a_mask_changed_after_the_last_forward_pass_counts():
    module = network()
    prune.l1_unstructured(module[0], "weight", 0.5)
    module[0].weight_mask.zero_()
    model = from_module(module, images())
    assert zeros(model.weights["0.weight"]) == 1.0


@pytest.mark.grid
@pytest.mark.parametrize("squashed", [False, True])
def test_masks_of_torch_ao_pruning(squashed):
    module, x = network(), images()
    sparsifier = sparsify(module)
    if squashed:
        sparsifier.squash_mask()
    model = from_module(module, x)
    assert zeros(model.weights["4.weight"]) == 0.5
    assert np.all(np.sum(model.weights["4.weight"].reshape(-1, 4) != 0, axis=1) == 2)
    assert largest_difference(model, module, x) < 1e-5


def test_any_parametrization_is_evaluated():
    module, x = (
        nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 3))).eval(),
        torch.ones(1, 4),
    )
    model = from_module(module, x)
    assert list(model.weights) == ["0.bias", "0.weight"]
    assert largest_difference(model, module, x) < 1e-6


def test_the_callers_model_is_unchanged():
    module, x = network(), images()
    prune_by_hooks(module)
    module.append(parametrizations.weight_norm(nn.Linear(10, 8)))
    sparsifier = WeightNormSparsifier()
    sparsifier.prepare(module.append(nn.Linear(8, 8)), [{"tensor_fqn": "6.weight"}])
    before = {name: (id(p), p._version) for name, p in module.named_parameters()}
    values = {name: value.clone() for name, value in module.state_dict().items()}
    classes, output = [type(m) for m in module.modules()], module(x)
    from_module(module, x)
    assert {name: (id(p), p._version) for name, p in module.named_parameters()} == before
    assert [type(m) for m in module.modules()] == classes
    assert all(torch.equal(value, values[name]) for name, value in module.state_dict().items())
    assert torch.equal(module(x), output)


def test_a_pruned_lstm():
    module, x = nn.LSTM(8, 16), torch.randn(5, 1, 8)
    prune.l1_unstructured(module, "weight_hh_l0", 0.5)
    module(x)
    model = from_module(module, x)
    assert zeros(model.weights["weight_hh_l0"]) == 0.5
    assert largest_difference(model, module, x) < 1e-5
    assert [s.name for s in model.outputs] == ["output_0", "output_1_0", "output_1_1"]


def test_inputs_that_are_no_tuple():
    with pytest.raises(InputError, match="one tuple"):
        from_module(nn.Bilinear(3, 3, 3), torch.randn(2, 3), torch.randn(2, 3))


def test_what_cannot_be_traced_is_one_clear_error(capfd):
    class Branch(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(InputError, match=r"model 'Branch': .* cannot trace") as caught:
        from_module(Branch(), torch.ones(2))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"example inputs: .*mat1 and mat2"):
        from_module(nn.Linear(4, 4), torch.ones(1, 5))
    assert capfd.readouterr() == ("", "")


class Halves(nn.Module):
    def forward(self, x):
        return x.unflatten(2, (-1, 2)) if x.shape[2] % 2 == 0 else x


@pytest.mark.parametrize("power", [0.5, 0.25])
def test_a_root_of_an_extent_is_refused_with_what_to_write(power):
    model = Apply(lambda x: x[:, : int(x.shape[1] ** power)])
    dynamic = ({1: torch.export.Dim("n", min=4, max=64)},)
    with pytest.raises(InputError, match=r"int\(.*whole numbers: n // 2, int\(n \* 0.25\)"):
        from_module(model, torch.rand(2, 16), dynamic_shapes=dynamic)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("layer", "shape", "told"),
    [
        (nn.LSTM(4, 4, batch_first=True, proj_size=2), (2, 16, 4), r"n becomes 16.*n = 16"),
        (Halves(), (2, 4, 16), r"% 2.*pass _n = Dim\('_n', .*; n = 2\*_n"),
    ],
)
def test_extents_that_cannot_stay_open_are_refused_with_what_to_pass(layer, shape, told):
    axis = 1 if shape[-1] == 4 else 2
    dynamic = ({axis: torch.export.Dim("n", min=5, max=64)},)
    with pytest.raises(InputError, match=f"cannot leave these extents open.*{told}"):
        from_module(layer.eval(), torch.randn(shape), dynamic_shapes=dynamic)
