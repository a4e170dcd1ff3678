import pytest
import torch

from tvm_sparse.demo import digits
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.lowering import lower
from tvm_sparse.pruning import JointPruning


@pytest.fixture(scope="module")
def data():
    return digits.load()


def small():
    return digits.build_model(channels=(16, 32, 32, 32), hidden=(128, 64))


@pytest.fixture(scope="module")
def trained(data):
    return digits.train(small(), data, 8).state_dict()


def build(trained):
    model = small()
    model.load_state_dict(trained)
    return model


def test_balanced_pruning_keeps_the_accuracy(data, trained):
    model = build(trained)
    assert (dense := digits.accuracy(model, data)) >= 0.97
    told = []
    results = digits.prune_iteratively(
        model, data, epochs=8, progress=lambda *args: told.append(args)
    )
    assert [r.wanted for r in results] == [0.75, 0.9]
    assert results[0].sparsity == 0.75
    assert 0.9 <= results[1].sparsity < 0.92
    assert min(r.accuracy for r in results) >= max(0.97, dense - 0.015)
    assert told[0] == ("fine-tuning at 75%", 1, 8)
    for result in results:
        assert digits.accuracy(result.model, data) == result.accuracy
    for layer in results[1].report.layers:
        weight = lower(results[1].model.get_submodule(layer.name).weight.detach().numpy(), "hwi")
        fit = Balanced.detect(weight)
        assert fit.evidence.exact
        assert 16 % fit.pattern.bank == 0
    assert torch.equal(model.head[1].weight, results[1].model.head[1].weight)


def test_another_method_with_taylor_scores(data, trained):
    model = build(trained)
    method = JointPruning(0.5, mix=0.7, vectors_per_row=2)
    (result,) = digits.prune_iteratively(model, data, [0.5], method=method, epochs=1)
    assert result.sparsity >= 0.49
    assert result.accuracy >= 0.95


@pytest.mark.slow
def test_the_demonstration_itself(data):
    model = digits.train(digits.build_model(), data, 10)
    dense = digits.accuracy(model, data)
    results = digits.prune_iteratively(model, data)
    assert dense >= 0.97
    assert results[-1].sparsity >= 0.9
    assert results[-1].accuracy >= max(0.97, dense - 0.01)
