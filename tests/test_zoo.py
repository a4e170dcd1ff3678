import pytest
import torch

from tests import zoo


@pytest.mark.parametrize("build", [zoo.torchvision_model, zoo.timm_model])
def test_same_seed_same_network(build):
    name = "mobilenet_v2" if build is zoo.torchvision_model else "mobilenetv2_050"
    image = torch.rand(1, 3, 64, 64)
    first, second, other = build(name), build(name), build(name, seed=1)
    assert torch.equal(first(image), second(image))
    assert not torch.equal(first(image), other(image))


def test_global_random_state_is_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    zoo.torchvision_model("squeezenet1_1")
    assert torch.equal(torch.rand(1), expected)
