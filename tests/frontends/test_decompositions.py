"""Products stay whole, attention becomes plain, corrected operators give PyTorch's values."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from tests.frontends.families import FAMILIES, SHAPES
from tests.frontends.operators import CORRECTED, Uses
from tests.frontends.running import largest_difference, wrong_outputs
from tests.parts import family, parts
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.program.exported import from_exported
from tvm_sparse.passes.graph.rewrite import op_name

OPTIONS = [
    {"scale": 0.3},
    {"is_causal": True, "enable_gqa": True},
    {"mask": "float"},
    {"mask": "row"},
]


class Attention(nn.Module):
    def __init__(self, mask: str = "", **options) -> None:
        super().__init__()
        self.options = options
        kept = torch.rand(5, 5) < 0.7
        kept[:, 0] = True
        if mask == "row":
            kept[2] = False
        self.mask = torch.randn(5, 5) if mask == "float" else kept if mask else None

    def forward(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, self.mask, **self.options)


def operators(module: nn.Module, *inputs: torch.Tensor) -> list[str]:
    main = from_exported(torch.export.export(module, inputs)).module["main"]
    return [op_name(b.value) for block in main.body.blocks for b in block.bindings]


@pytest.mark.grid
@pytest.mark.parametrize("options", OPTIONS)
def test_attention(options):
    heads = 2 if options.get("enable_gqa") else 4
    inputs = (torch.randn(2, 4, 5, 8), torch.randn(2, heads, 5, 8), torch.randn(2, heads, 5, 8))
    module = Attention(**options)
    model = from_exported(torch.export.export(module, inputs))
    assert largest_difference(model, module, *inputs) < 1e-5


def test_attention_without_a_mask_is_two_products_and_a_softmax():
    found = operators(Attention(), *[torch.randn(2, 4, 5, 8)] * 3)
    assert sorted(name for name in found if name) == [
        *("matmul", "matmul", "multiply", "nn.softmax", "permute_dims")
    ]


@pytest.mark.grid
@pytest.mark.parametrize("features, sums", [(9, 0), (3, 1)])
def test_a_bilinear_layer_is_a_linear_one_on_products_or_of_few_features_before_them(
    features, sums
):
    module, inputs = nn.Bilinear(5, 7, features), (torch.randn(4, 5), torch.randn(4, 7))
    found = operators(module, *inputs)
    assert "matmul" in found
    assert found.count("sum") == sums
    model = from_exported(torch.export.export(module, inputs))
    assert largest_difference(model, module, *inputs) < 1e-5


def test_a_linear_layer_of_three_axes_is_one_product():
    found = operators(nn.Linear(8, 4), torch.randn(2, 3, 8).transpose(0, 1))
    assert [name for name in found if name] == ["permute_dims", "matmul", "add"]


PARTS = parts({"corrected": CORRECTED, **FAMILIES}, 10)
# Numbers take a minute; their operators are in PyTorch's own suite, too (tests/suites).
MARKED = [pytest.param(p, marks=pytest.mark.slow) if family(p) == "numbers" else p for p in PARTS]


@pytest.mark.grid(10)
@pytest.mark.parametrize("part", MARKED)
def test_operators_give_the_values_of_pytorch(part):
    module, x = Uses(PARTS[part]), torch.randn(SHAPES.get(family(part), (2, 5, 5)))
    model = from_exported(torch.export.export(module, (x,)))
    assert wrong_outputs(model, module, x) == []


@pytest.mark.filterwarnings("ignore:var")
def test_the_variance_of_too_few_elements_is_not_finite():
    class Variances(nn.Module):
        def forward(self, x):
            return {"one": x[:1].var(0).isnan(), "two": x.var(0, correction=3).isinf()}

    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    model = from_exported(torch.export.export(Variances(), (x,)))
    assert wrong_outputs(model, Variances(), x) == []


def test_a_view_of_other_memory_is_refused():
    class Beside(nn.Module):
        def forward(self, x):
            return x[1:].as_strided((2, 2), (1, 1))

    with pytest.raises(UnsupportedError, match="reads memory by strides"):
        from_exported(torch.export.export(Beside(), (torch.ones(4),)))


def test_orders_count_axes_from_the_first():
    """TVM's change of layouts, which every network with convolutions goes through, wants that."""

    class Turned(nn.Module):
        def forward(self, x):
            return x.permute(0, -2, -1, 1)

    main = from_exported(torch.export.export(Turned(), (torch.randn(1, 2, 3, 4),))).module["main"]
    orders = [
        [int(axis) for axis in b.value.attrs.axes]
        for block in main.body.blocks
        for b in block.bindings
        if op_name(b.value) == "permute_dims"
    ]
    assert orders == [[0, 2, 3, 1]]
