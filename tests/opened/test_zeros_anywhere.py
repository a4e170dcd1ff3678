"""Weights with zeros anywhere, behind layers that compute their open extents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import tvm_sparse as ts
from tests.modules import Apply
from tests.opened.case import OpenCase
from tests.opened.judged import CONFIG, check

FORCED = replace(CONFIG, force={"body*": "unstructured"})

ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda y: y,
    "flat": lambda y: torch.relu(y).flatten(1),
    "pooled": lambda y: F.max_pool2d(torch.relu(y), 2, ceil_mode=True),
    "means": lambda y: (y - y.amax((2, 3), keepdim=True)).clamp(-64, 64),
    "sliced": lambda y: torch.relu(y[:, :, :, 1:])[:, :, :-1],
    "bordered": lambda y: F.pad(y, (1, 2, 0, 1)),
    "turned": lambda y: y.permute(0, 2, 3, 1).flatten(1, 2).clamp(-9, 9),
}
"""What is done with the result of the last layer."""


class Planes(nn.Module):
    """Layers behind a stride, a residual sum, and an end."""

    def __init__(self, stride: int, end: str) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, stride, 1)
        self.body = nn.Sequential(
            *(nn.Conv2d(16, 32, 1), nn.ReLU(), nn.Conv2d(32, 16, 3, padding=1))
        )
        self.body2 = nn.Conv2d(16, 24, 3, 2, 1)
        self.end = ENDS[end]

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.end(self.body2(torch.relu(y + self.body(y))))


def whole(model: nn.Module, kept: float = 0.15) -> nn.Module:
    """Give ``model`` weights of which few are kept, and small whole numbers."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randint(-2, 3, parameter.shape))
            if parameter.ndim > 1:
                parameter.mul_(torch.rand_like(parameter) < kept)
    return model.eval()


def judged(case: OpenCase, layers: int) -> None:
    """Compile with rows stored as they are, and compare with eager at many extents."""
    library = ts.compile(
        case.model,
        case.inputs(case.example),
        dynamic_shapes=case.dynamic(),
        config=FORCED,
    )
    chosen = [d.chosen for d in library.decisions if d.layer.startswith("body")]
    assert chosen == ["unstructured"] * layers
    check(case, library, lambda x, found: not torch.equal(found, case.model(*x)), seed=0)


@pytest.mark.grid(14)
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_planes(monkeypatch, stride, end, threads):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    limits = {"b": (1, 4), "h": (9, 40), "w": (9, 40)}
    example = {"b": 2, "h": 19, "w": 22}
    model = whole(Planes(stride, end))
    judged(OpenCase(model, [["b", 3, "h", "w"]], limits, example, exact=True), 3)


@pytest.mark.parametrize("step", [4, 8, 256])
def test_frames(step):
    """Linear layers over frames, of which there are so many as fit into the samples."""
    frames = Apply(lambda x: x.unfold(1, 32, step))
    model = whole(nn.Sequential())
    model.frames = frames
    model.body = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 24))
    limits, example = {"n": (32, 40 * step)}, {"n": 5 * step + 32}
    case = OpenCase(whole(model), [[1, "n"]], limits, example, exact=True)
    judged(case, 2)


def test_filters_are_stored_as_in_a_closed_program():
    """A bank of filters behind frames, as speech models have."""
    model = nn.Sequential(Apply(lambda x: x.unfold(1, 512, 256)), nn.Linear(512, 128))
    case = OpenCase(whole(model, 0.03), [[1, "n"]], {"n": (512, 48000)}, {"n": 16000}, exact=True)
    inputs = case.inputs(case.example)
    for shapes in (None, case.dynamic()):
        program = ts.compile(model, inputs, dynamic_shapes=shapes, config=CONFIG)
        assert [d.chosen for d in program.decisions] == ["unstructured"]
        assert torch.equal(program(*inputs), model(*inputs))
