"""An example of one sample stands for several: what is open in it stays open."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tvm_sparse.frontends.modules.widened import widened

BATCH = Dim("batch", min=1, max=16)
LENGTH = Dim("length", min=1, max=64)


class Masked(nn.Module):
    """PyTorch makes numbers of a batch of one here: it expands a mask, and joins it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x, mask):
        """Return each sample's tokens, those that ``mask`` leaves out as zeros."""
        wide = mask[:, None, :].expand(x.shape[0], 1, x.shape[1])
        return self.inner(x) * wide.transpose(1, 2)


def shape_of(value):
    return None if value is None else tuple(value.shape)


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [
        ({"x": {0: BATCH}, "mask": {0: BATCH}}, ((2, 5, 8), (2, 5))),
        (({0: BATCH}, {0: BATCH}), ((2, 5, 8), (2, 5))),
        ({"x": {0: Dim.AUTO}, "mask": {0: Dim.AUTO}}, ((1, 5, 8), (1, 5))),
        ({"x": {0: BATCH}, "mask": None}, ((2, 5, 8), (1, 5))),
        ({"x": {0: Dim("batch", min=1, max=2), 1: LENGTH}}, ((2, 5, 8), (1, 5))),
        ({"x": {0: Dim("batch", min=3)}, "mask": {0: Dim("batch", min=3)}}, ((1, 5, 8), (1, 5))),
        (None, ((1, 5, 8), (1, 5))),
    ],
)
def test_open_axes_of_one_become_two(shapes, wanted):
    call = ((torch.randn(1, 5, 8),), {"mask": torch.ones(1, 5)})
    args, kwargs = widened(Sums(), call, shapes)
    assert [shape_of(x) for x in (*args, *kwargs.values())] == list(wanted)


class Sums(nn.Module):
    """Takes any batches."""

    def forward(self, x, mask):
        """Return one number."""
        return x.sum() + mask.sum()


def test_dimensions_that_follow_and_parts_of_containers():
    call = ((torch.randn(1, 3), [torch.randn(3, 1), torch.randn(1, 3)]), {})
    shapes = ({0: BATCH}, [{0: 3 * BATCH}, None])

    class Parts(nn.Module):
        def forward(self, x, parts):
            return x.sum() + parts[0].sum() + parts[1].sum()

    (x, parts), _ = widened(Parts(), call, shapes)
    assert [tuple(t.shape) for t in (x, *parts)] == [(2, 3), (6, 1), (1, 3)]


def test_a_model_of_one_sample_keeps_its_example():
    class One(nn.Module):
        def forward(self, x):
            return x.view(8)

    call = ((torch.randn(1, 8),), {})
    assert widened(One(), call, {"x": {0: BATCH}}) is call


def test_an_example_of_one_sample_serves_every_batch():
    model = Masked().eval()
    x, mask = torch.randn(1, 5, 8), torch.ones(1, 5)
    shapes = {"x": {0: BATCH, 1: LENGTH}, "mask": {0: BATCH, 1: LENGTH}}
    config = ts.Config(measure=False, cache=False)
    library = ts.compile(model, (x, mask), dynamic_shapes=shapes, config=config)
    for batch, length in ((1, 5), (2, 1), (7, 13), (16, 64)):
        x = torch.randn(batch, length, 8)
        mask = (torch.rand(batch, length) < 0.7).float()
        torch.testing.assert_close(library(x, mask), model(x, mask), rtol=1e-4, atol=1e-5)


class Counted(nn.Module):
    """Counts down in steps of a float, as XLNet does, and asks for its length."""

    def forward(self, x, flag=False):
        """Return the places from the last one, and the input where there is more than one."""
        if x.shape[1] > 1 and flag:
            return x
        places = torch.arange(x.shape[1], -1, -1.0, dtype=torch.int64)
        return places * 2 + x[:, :1]


def test_constants_beside_open_tensors_and_whole_steps_of_floats():
    x = torch.randint(0, 9, (1, 5))
    shapes = {"x": {0: BATCH, 1: LENGTH}, "flag": None}
    config = ts.Config(measure=False, cache=False)
    library = ts.compile(Counted(), (x,), {"flag": False}, dynamic_shapes=shapes, config=config)
    for batch, length in ((1, 1), (3, 2), (2, 64)):
        x = torch.randint(0, 9, (batch, length))
        assert torch.equal(library(x, flag=False), Counted()(x))
