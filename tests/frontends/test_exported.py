"""ExportedProgram: names, shared weights, lifted constants, outputs, errors that name the layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from tests.frontends.running import largest_difference, run
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.converters.operators import CONVERTERS
from tvm_sparse.frontends.program.exported import from_exported
from tvm_sparse.frontends.quiet import quiet

pytestmark = [
    pytest.mark.filterwarnings("ignore:The tensor attribute"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support"),
]

X = torch.linspace(-1, 1, 16).reshape(2, 8)


class Tied(nn.Module):
    """A shared weight, a persistent and another buffer, a tensor attribute, an inline constant."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("kept", torch.full((8,), 2.0))
        self.register_buffer("lost", torch.full((8,), 3.0), persistent=False)
        self.plain = torch.arange(8.0)

    def forward(self, x):
        total = self.second(self.first(x)) * self.kept + self.lost + self.plain
        return total + torch.tensor([1.5])


def test_parameters_buffers_and_constants_are_weights_by_name():
    module = Tied().eval()
    model = from_exported(torch.export.export(module, (X,)))
    assert largest_difference(model, module, X) < 1e-5
    assert {"first.bias", "second.bias", "kept", "lost", "plain"} < model.weights.keys()
    assert sum(name.endswith(".weight") for name in model.weights) == 1
    names = [p.name for p in model.module["main"].params]
    assert len(names) == len(model.weights) + 1
    assert "params" not in model.module["main"].attrs


def test_masks_attached_in_the_program_come_as_a_product():
    module = nn.Sequential(nn.Linear(8, 8)).eval()
    prune.l1_unstructured(module[0], "weight", 0.5)
    model = from_exported(torch.export.export(module, (X,)))
    assert {"0.weight_orig", "0.weight_mask"} < model.weights.keys()
    assert largest_difference(model, module, X) < 1e-6


def test_sparse_tensors_in_the_program_keep_their_zeros():
    module = nn.Sequential(nn.Linear(8, 8)).eval()
    weight = module[0].weight.detach() * (torch.rand(8, 8) < 0.5)
    module[0].weight = nn.Parameter(weight.to_sparse_csr(), requires_grad=False)
    program = torch.export.export(module, (X,))
    model = from_exported(program)
    assert np.array_equal(model.weights["0.weight"], weight)
    assert np.allclose(run(model, X)[0], module(X).detach(), atol=1e-6)
    program._example_inputs = None
    with pytest.raises(InputError, match=r"weight '0.weight': is a sparse tensor"):
        from_exported(program)


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.conv = nn.Linear(8, 8), nn.Conv1d(2, 4, 3)

    def forward(self, x):
        return self.conv(self.linear(x)[None]) @ x.T[1:7]


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    module = Products().to(dtype)
    model = from_exported(torch.export.export(module, (X.to(dtype),)))
    name = str(dtype).removeprefix("torch.")
    assert model.inputs[0].dtype == model.outputs[0].dtype == name
    weight = model.weights["linear.weight"]
    assert weight.dtype.name == name
    assert np.array_equal(weight.astype(np.float32), module.linear.weight.detach().float())
    if dtype == torch.float16:
        assert largest_difference(model, module, X.half()) < 5e-3


def test_double_precision_is_kept():
    module, x = Products().double(), X.double()
    model = from_exported(torch.export.export(module, (x,)))
    assert largest_difference(model, module, x) < 1e-14


class Inner(nn.Module):
    def forward(self, x):
        return torch.special.airy_ai(x)


def test_an_unknown_operator_is_named_with_its_layer():
    module = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), Inner()))
    program = torch.export.export(module, (X,))
    with pytest.raises(InputError, match=r"layer '1.1': operator '.*airy_ai") as caught:
        from_exported(program)
    assert caught.value.todo


def test_an_operator_that_fails_in_the_importer_is_named_with_its_layer(monkeypatch):
    def fail(importer, node):
        raise ValueError("its sizes are not statically known")

    monkeypatch.setitem(CONVERTERS, "tan.default", fail)

    class Spread(nn.Module):
        def forward(self, x):
            return x.tan()

    program = torch.export.export(nn.Sequential(nn.ReLU(), Spread()), (X,))
    with pytest.raises(InputError, match=r"layer '1': operator 'torch.tan.*statically known"):
        from_exported(program)


def test_an_output_that_is_no_tensor_nor_constant_is_refused():
    class Length(nn.Module):
        def forward(self, x):
            return {"x": x + 1, "count": x.shape[0]}

    dims = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(Length(), (X,), dynamic_shapes=dims)
    with pytest.raises(InputError, match="is a number that values or shapes decide"):
        from_exported(program)


def test_a_program_without_values_is_refused():
    with torch.device("meta"):
        module = nn.Linear(8, 8)
        program = torch.export.export(module, (torch.ones(2, 8, device="meta"),))
    with pytest.raises(InputError, match="weight 'weight': is on the meta device"):
        from_exported(program)


def test_views_of_what_a_decomposition_of_ours_computes():
    class Heads(nn.Module):
        def forward(self, x):
            heads = x.reshape(2, 5, 4, 2).transpose(1, 2)
            y = nn.functional.scaled_dot_product_attention(heads, heads, heads)
            return y.transpose(1, 2).reshape(2, 5, 8)

    module, x = Heads(), torch.randn(2, 5, 8)
    with quiet():
        program = torch.export.export(module, (x,)).run_decompositions({})
    before = str(program.graph)
    assert "aten.view.default" in before
    assert largest_difference(from_exported(program), module, x) < 1e-6
    assert str(program.graph) == before


def test_other_symbols_than_the_batch_keep_their_names():
    dims = {"x": {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}}

    class Sum(nn.Module):
        def forward(self, x):
            return x.exp(), x.reshape(-1)

    model = from_exported(torch.export.export(Sum(), (X,), dynamic_shapes=dims))
    first, second = model.inputs[0].shape
    assert first != second and "batch" not in (first, second)
    assert model.outputs[1].shape[0].replace(" ", "") in (f"{first}*{second}", f"{second}*{first}")
