import torch

from tvm_sparse.demo.separable import BLOCKS, build_separable
from tvm_sparse.pruning import find_separable


def test_structure_and_seed():
    model = build_separable()
    assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    found = find_separable(model)
    assert len(found.blocks) == len(BLOCKS)
    assert all(block.expand and block.project for block in found.blocks)
    assert [group.producers for group in found.tied] == [
        ["blocks.0.project.0", "blocks.1.project.0"],
        ["blocks.2.project.0", "blocks.3.project.0"],
    ]
    assert not found.skipped
    assert torch.equal(build_separable().classifier.weight, model.classifier.weight)
    assert not torch.equal(build_separable(seed=1).classifier.weight, model.classifier.weight)
