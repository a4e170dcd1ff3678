"""Examples of other sizes that leave out what the given one alone is."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import tvm_sparse as ts
from tests.modules import Apply

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


def even(x):
    """Planes that are resized to even ones at each depth, where they are none, and halved."""
    for _ in range(3):
        height, width = (extent + extent % 2 for extent in x.shape[-2:])
        if height != x.shape[-2] or width != x.shape[-1]:
            x = F.interpolate(x, (height, width), mode="bilinear")
        x = F.avg_pool2d(x, 2)
    return x


@pytest.mark.parametrize("planes", [(24, 32), (25, 40)], ids=str)
def test_an_example_of_even_planes_opens_odd_ones_of_each_axis_and_depth(planes):
    """No size of one axis alone answers what is asked of the other, and of smaller planes."""
    shapes = ({2: Dim("h"), 3: Dim("w")},)
    library = ts.compile(
        Apply(even), (torch.rand(2, 3, *planes),), dynamic_shapes=shapes, config=CONFIG
    )
    assert not library.ranges
    for height, width in itertools.product((1, 2, 8, 13, 33), (3, 16, 22)):
        x = torch.rand(2, 3, height, width)
        torch.testing.assert_close(library(x), even(x))
