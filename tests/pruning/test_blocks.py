from torch import nn

from tvm_sparse.pruning.blocks import blocks_of


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)


def test_the_longest_list_of_equal_modules_with_modules_of_their_own():
    model = nn.ModuleDict(
        {
            "short": nn.Sequential(Block(), Block()),
            "mixed": nn.Sequential(Block(), nn.Sequential(nn.ReLU()), Block(), Block()),
            "plain": nn.Sequential(*(nn.Linear(2, 2) for _ in range(9))),
            "long": nn.ModuleList(Block() for _ in range(3)),
        }
    )
    assert blocks_of(model) == ["long.0", "long.1", "long.2"]
    assert blocks_of(model["short"]) == ["0", "1"]


def test_a_network_without_any():
    assert blocks_of(nn.Linear(2, 2)) == []
    assert blocks_of(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))) == []
