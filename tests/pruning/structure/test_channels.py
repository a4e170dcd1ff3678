import torch
from torch import nn
from torch.nn import functional as F

from tvm_sparse.pruning.structure.channels import ChannelGraph


def group_made_by(model, layer):
    graph = ChannelGraph(model)
    return graph.group_of(graph.node_of(layer))


class Net(nn.Module):
    """Layers a, b, c (3 -> 4 -> 4 -> 4) put together by ``join(self, x)``."""

    def __init__(self, join):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 1)
        self.b = nn.Conv2d(4, 4, 1)
        self.c = nn.Conv2d(4, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self.plain = nn.BatchNorm2d(4, affine=False)
        self.join = join

    def forward(self, x):
        return self.join(self, x)


def test_a_chain():
    group = group_made_by(Net(lambda n, x: n.b(F.relu(n.norm(n.a(x))))), "a")
    assert (group.producers, group.norms, group.consumers) == (["a"], ["norm"], ["b"])
    assert group.blocked == []


def test_an_addition_ties():
    def join(net, x):
        y = net.a(x)
        return net.c(y + net.b(y))

    group = group_made_by(Net(join), "a")
    assert (group.producers, group.consumers) == (["a", "b"], ["b", "c"])


def test_a_gate_ties_but_does_not_block():
    def join(net, x):
        y = net.a(x)
        return net.c(y * torch.sigmoid(net.b(y.mean((2, 3), keepdim=True))))

    group = group_made_by(Net(join), "a")
    assert group.producers == ["a", "b"]
    assert group.blocked == []


def test_what_moves_zeros_blocks():
    for join, reason in [
        (lambda n, x: n.b(torch.sigmoid(n.a(x))), "reaches sigmoid, which does not keep zeros"),
        (lambda n, x: n.b(n.a(x) + 1), "has a constant added"),
        (lambda n, x: n.b(n.plain(n.a(x))), "passes plain, which has no weight to set to zero"),
        (lambda n, x: n.b(torch.cos(n.a(x))), "reaches the operation cos"),
        (lambda n, x: n.b(F.pad(n.a(x), (1, 1), "constant", 2.0)), "reaches pad, which"),
        (lambda n, x: n.a(x), "reaches the model's output"),
    ]:
        assert reason in group_made_by(Net(join), "a").blocked[0]
    assert not group_made_by(Net(lambda n, x: n.b(F.pad(n.a(x), (1, 1)))), "a").blocked


def test_a_layer_used_twice_ties_its_inputs_and_outputs():
    model = Net(lambda n, x: n.c(n.b(n.b(n.a(x)))))
    group = group_made_by(model, "b")
    assert group.producers == ["a", "b"]
    assert group.consumers == ["b", "c"]


def test_linear_layers_after_flattening():
    for flatten in (nn.Flatten(), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), flatten, nn.Linear(16, 2))
        assert group_made_by(model, "0").consumers == ["2"]
        assert not group_made_by(model, "0").blocked
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(6, 2))
    assert group_made_by(model, "0").blocked == ["is read by 1 along another axis"]


def test_view_with_the_batch_size():
    class Viewed(Net):
        def forward(self, x):
            x = self.a(x)
            return self.join(x.view(x.size(0), -1))

    assert group_made_by(Viewed(nn.Linear(64, 2)), "a").consumers == ["join"]
    assert not group_made_by(Viewed(nn.Linear(64, 2)), "a").blocked


def test_depthwise_and_grouped_convolutions():
    depthwise = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 2, 1))
    group = group_made_by(depthwise, "0")
    assert (group.producers, group.depthwise, group.consumers) == (["0"], ["1"], ["2"])
    grouped = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 2, 1))
    assert group_made_by(grouped, "0").blocked == ["reaches the grouped convolution 1"]


def test_groups_are_listed_once():
    graph = ChannelGraph(Net(lambda n, x: n.c(n.a(x) + n.b(n.a(x)))))
    assert [group.producers for group in graph.groups() if group.producers] == [["a", "b"], ["c"]]
    assert graph.node_of("norm") is None
