import pytest
import torch
from torch import nn

from tests import zoo
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.pruning import find_separable

# blocks, with PW-conv1, with PW-conv2, with squeeze-excite, PW-conv2 in each prunable set, others.
NETWORKS = {
    ("torchvision", "mobilenet_v2"): (17, 16, 17, 0, [1, 2, 3, 4, 3, 3, 1], 0),
    ("torchvision", "mobilenet_v3_small"): (11, 10, 11, 9, [1, 2, 3, 2, 3], 0),
    ("torchvision", "mobilenet_v3_large"): (15, 14, 15, 8, [2, 3, 4, 2, 3], 1),
    ("torchvision", "efficientnet_b0"): (16, 15, 16, 16, [1, 2, 2, 3, 3, 4, 1], 0),
    ("torchvision", "mnasnet1_0"): (17, 16, 17, 0, [1, 3, 3, 3, 2, 4, 1], 0),
    ("timm", "mobilenetv2_100"): (17, 16, 17, 0, [1, 2, 3, 4, 3, 3, 1], 0),
    ("timm", "mobilenetv3_small_100"): (11, 10, 11, 9, [1, 2, 3, 2, 3], 0),
    ("timm", "efficientnet_b0"): (16, 15, 16, 16, [1, 2, 2, 3, 3, 4, 1], 0),
    ("timm", "mnasnet_100"): (17, 16, 17, 0, [1, 3, 3, 3, 2, 4, 1], 0),
}


@pytest.mark.parametrize(("package", "name"), NETWORKS)
def test_published_networks(package, name):
    library = zoo.package(package)
    create = library.models.get_model if package == "torchvision" else library.create_model
    with torch.device("meta"):  # structure only: no weights are made
        found = find_separable(create(name))
    blocks = found.blocks
    counts = (
        len(blocks),
        sum(block.expand is not None for block in blocks),
        sum(block.project is not None for block in blocks),
        sum(block.squeeze_excite for block in blocks),
        [len(group.producers) for group in found.tied],
        len(found.skipped),
    )
    assert counts == NETWORKS[package, name]


class Block(nn.Module):
    """A user's own inverted residual block with a hand-written gate and swish."""

    def __init__(self, channels, wide):
        super().__init__()
        self.grow = nn.Conv2d(channels, wide, 1)
        self.norm = nn.BatchNorm2d(wide)
        self.mix = nn.Conv2d(wide, wide, 5, padding=2, groups=wide)
        self.gate = nn.Conv2d(wide, wide, 1)
        self.shrink = nn.Conv2d(wide, channels, 1)

    def forward(self, x):
        y = self.norm(self.grow(x))
        y = self.mix(y * torch.sigmoid(y))
        y = y * torch.sigmoid(self.gate(nn.functional.adaptive_avg_pool2d(y, 1)))
        return x + self.shrink(y)


def test_a_users_own_block():
    model = nn.Sequential(Block(8, 16), Block(8, 16), nn.Conv2d(8, 4, 1))
    found = find_separable(model)
    block = found.blocks[1]
    assert (block.depthwise, block.project, block.squeeze_excite) == ("1.mix", "1.shrink", True)
    assert found.skipped == {
        "0.shrink": "its output comes from the model's input",
        "1.shrink": "its output comes from the model's input",
    }
    model = nn.Sequential(nn.Conv2d(3, 8, 1), Block(8, 16))
    reason = "its outputs are added to those of 0, which is no PW-conv2"
    assert find_separable(model).skipped == {"1.shrink": reason}


def test_pw_conv2_that_feeds_the_next_depthwise_stays():
    found = find_separable(zoo.timm_model("mobilenetv1_100"))
    assert len(found.tied) == 1
    reason = "its outputs are the channels of the depthwise blocks.1.0.conv_dw"
    assert found.skipped["blocks.0.0.conv_pw"] == reason


def test_a_depthwise_convolution_without_pw_conv2():
    model = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.ReLU(), nn.Conv2d(4, 8, 3))
    block = find_separable(model).blocks[0]
    assert (block.expand, block.project) == (None, None)
    assert block.note == "no PW-conv2: the depthwise output reaches 2"


def test_a_model_without_depthwise_convolutions():
    with pytest.raises(UnsupportedError, match=r"ResNet: has no depthwise .* use balanced"):
        find_separable(zoo.torchvision_model("resnet18"))
