"""Changes of what a compiled graph reads, where PyTorch counts a version and where it does not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.dynamo import changes as changes_of
from tvm_sparse.dynamo.changes import SMALL, snapshot

LOOSE = {"scale": torch.tensor([1.0, 2, 3])}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Reads(nn.Module):
    """Reads parameters, buffers, plain attributes, tensors of lists and of the module's globals."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)
        self.plain, self.listed = torch.randn(3, 1, 1), [torch.randn(3, 1, 1)]
        self.register_buffer("table", torch.randn(3, 8, 8))

    def forward(self, x):
        y = torch.relu(self.norm(self.layer(x))) * self.plain + self.listed[0]
        return y * LOOSE["scale"][:, None, None] + self.table


def changes(model, x):
    """Yield after each change of a value that ``model`` reads."""
    yield "nothing"
    model.train()
    with torch.no_grad():
        model(x * 3 + 1)
    model.eval()
    yield "statistics of a batch norm"
    for owner in (model.plain, model.listed[0], LOOSE["scale"], model.table):
        with torch.no_grad():
            owner.mul_(1.5)
        yield "another tensor, in place"
    model.plain = torch.randn(3, 1, 1)
    yield "another tensor as an attribute"
    model.norm.running_var.numpy()[:] = 7
    yield "a buffer, through NumPy"
    model.layer.weight.data.mul_(0.9)
    yield "a parameter, through its data"
    model.layer.weight.data.copy_(torch.randn(3, 3, 1, 1))
    yield "a parameter, copied to its data"
    model.layer.weight.detach().numpy()[:] *= 0.5
    yield "a parameter, through NumPy"
    for fused in (False, True):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=fused)
        with torch.enable_grad():
            model(x).sum().backward()
        optimizer.step()
        yield f"an optimizer's step, fused: {fused}"


def test_every_tensor_that_a_module_reads_is_watched():
    torch.manual_seed(0)
    model, x = Reads().eval(), torch.randn(2, 3, 8, 8)
    fast = torch.compile(
        model, backend="tvm_sparse", options={"measure": False, "artifacts": False, "limit": 20}
    )
    wrong = []
    with torch.no_grad():
        for change in changes(model, x):
            if not torch.allclose(fast(x), model(x), rtol=1e-4, atol=1e-5):
                wrong.append(change)
    assert wrong == []
    assert not any(graph.refused for graph in ts.partitions(fast).graphs)


@pytest.fixture(params=["on the host", "on a device"])
def place(request, monkeypatch):
    """Where tensors count as lying; comparisons on a device work on any."""
    if request.param == "on a device":
        monkeypatch.setattr(changes_of, "HOST", torch.device("meta"))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (SMALL + 1,)])
def test_buffers_are_compared_by_value(shape, dtype):
    buffer = torch.ones(shape).to(dtype)
    unchanged = snapshot([buffer], "versions")
    assert unchanged([buffer])
    buffer.data.zero_()
    assert unchanged([buffer]) == (buffer.numel() == 0)


@pytest.mark.usefixtures("place")
def test_a_buffer_of_nan_and_one_with_gaps_are_unchanged():
    buffers = [torch.full((3,), torch.nan), torch.randn(6)[::2]]
    unchanged = snapshot(buffers, "versions")
    assert unchanged(buffers)
    buffers[1].data.zero_()
    assert not unchanged(buffers)


@pytest.mark.usefixtures("place")
def test_every_change_of_a_weight_is_seen_wherever_it_lies():
    torch.manual_seed(0)
    model, x = Reads().eval(), torch.randn(2, 3, 8, 8)

    def weights():
        own = (model.layer.weight, model.layer.bias, model.norm.weight, model.norm.bias)
        return [*own, model.norm.running_mean, model.norm.running_var, model.table]

    seen = {}
    before = snapshot(weights(), "versions")
    for change in changes(model, x):
        seen[change] = not before(weights())
        before = snapshot(weights(), "versions")
        assert before(weights())
    unseen = {"nothing", "another tensor as an attribute"}
    assert {change for change, noticed in seen.items() if not noticed} == unseen


def test_counts_read_no_value(monkeypatch):
    weight, buffer = nn.Parameter(torch.randn(4, 4)), torch.randn(3)
    unchanged = snapshot([weight, buffer], "counts")
    monkeypatch.setattr(changes_of, "content", None)
    buffer.data.zero_()
    assert unchanged([weight, buffer])
    with torch.no_grad():
        weight.mul_(2)
    assert not unchanged([weight, buffer])


def test_steps_of_other_fused_optimizers_change_nothing():
    weight, other = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4, 4))
    unchanged = snapshot([weight], "versions")
    for parameter in (other, weight):
        optimizer = torch.optim.SGD([parameter], lr=0.1, fused=True)
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        assert unchanged([weight]) == (parameter is other)
