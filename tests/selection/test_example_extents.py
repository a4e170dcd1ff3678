"""What suits the extents of an example is chosen for open ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.export import Dim
from tvm import tirx

import tvm_sparse as ts
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.passes.graph.computed_extents import at_extents, item_at

N, H = (tirx.Var(name, "int64") for name in ("n", "h"))


def test_extents_of_layers_follow_from_the_example():
    assert at_extents((N, 3, (H + 1) // 2), {"n": 2, "h": 9}) == (2, 3, 5)
    assert at_extents((N, H), {"n": 2}) == ()
    assert at_extents((N, H - 9), {"n": 2, "h": 9}) == ()
    assert item_at((N, H), {"n": 2, "h": 9}) == (1, 9)
    assert item_at((4, H), {"h": 9}) == (4, 9)
    assert item_at((N, H), {}) == ()


@pytest.mark.parametrize(
    ("examples", "typical"),
    [((2, 30, 40), (2, 30, 40)), ((), (1, 8, 64)), ((2, 30), (1, 8, 64))],
)
def test_examples_are_typical(examples, typical):
    c = Contraction((N, H, tirx.Var("w", "int64")), 16, 16, (1, 1), (1, 1), (1, 1), (H, H))
    assert replace(c, examples=examples).typical_lead == typical


def test_examples_of_other_extents_are_none():
    """An extent that a pass has changed meanwhile counts, not what the example had."""
    assert Contraction((7, N), 16, 16, examples=(8, 5)).typical_lead == (7, 64)


@pytest.mark.parametrize(
    "given", [lambda x: {"example_inputs": (x,)}, lambda x: {"kwargs": {"input": x}}]
)
def test_models_know_their_examples(given):
    shapes = ({0: Dim("n", max=16), 2: Dim("h", min=4, max=64)},)
    x = torch.randn(2, 3, 12, 8)
    options = given(x)
    if "kwargs" in options:
        shapes = {"input": shapes[0]}
    model = ts.load(nn.Conv2d(3, 4, 3), dynamic_shapes=shapes, **options)
    assert model.extents == {"n": 2, "h": 12}
    assert ts.load(nn.Conv2d(3, 4, 3), (x,)).extents == {}


def test_a_batch_of_the_example_counts_as_one_image():
    """PyTorch wants two to leave a batch open; formats for so many rows waste most of one's."""
    torch.manual_seed(0)
    layer = nn.Conv2d(512, 512, 3, padding=1).eval().requires_grad_(False)
    ts.prune.balanced(layer, 0.75).squash_mask()
    dims = ({0: Dim("n", max=8), 2: Dim("h", min=2, max=64), 3: Dim("w", min=2, max=64)},)
    config = ts.Config(measure=False, cache=False, tuned=False)
    found = [
        ts.compile(layer, (torch.randn(n, 512, 4, 5),), dynamic_shapes=dims, config=config)
        for n in (2, 8)
    ]
    assert [d.chosen for library in found for d in library.decisions] == ["balanced", "balanced"]


def test_multiples_have_the_extents_of_the_example():
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Conv2d(3, 512, 3, 16, 1), nn.ReLU(), nn.Conv2d(512, 512, 3, 1, 1))
    ts.prune.balanced(layer.eval(), 0.75).squash_mask()
    dims = ({0: Dim("n", max=8), 2: 32 * Dim("h", max=10), 3: 32 * Dim("w", max=10)},)
    config = ts.Config(measure=False, cache=False, tuned=False)
    x = torch.randn(1, 3, 64, 96)
    opened = ts.compile(layer, (x,), dynamic_shapes=dims, config=config)
    wanted = ts.compile(layer, (x,), config=config).decisions
    assert [(d.chosen, d.reason) for d in opened.decisions] == [
        (d.chosen, d.reason) for d in wanted
    ]


@pytest.mark.parametrize("side", [4, 56])
def test_reasons_are_those_of_a_closed_network(side):
    """What a format takes is foretold for the example's pixels."""
    torch.manual_seed(0)
    layer = nn.Conv2d(64, 64, 3, padding=1).eval()
    ts.prune.unstructured(layer, 0.9).squash_mask()
    config = ts.Config(measure=False, cache=False, tuned=False)
    x = torch.randn(1, 64, side, side)
    dims = ({2: Dim("h", min=4, max=64), 3: Dim("w", min=4, max=64)},)
    opened = ts.compile(layer, (x,), dynamic_shapes=dims, config=config)
    (found,), (wanted,) = opened.decisions, ts.compile(layer, (x,), config=config).decisions
    assert (found.chosen, found.reason) == (wanted.chosen, wanted.reason)
    with torch.no_grad():
        torch.testing.assert_close(opened(x), layer(x), rtol=1e-4, atol=1e-5)


def test_reasons_of_few_and_many_pixels_differ():
    """So that the test above can fail."""
    layer = Contraction((1, N, N), 64, 64, (3, 3), (1, 1), (1, 1), (N, N))
    assert replace(layer, examples=(1, 4, 4)).rows < replace(layer, examples=(1, 56, 56)).rows
