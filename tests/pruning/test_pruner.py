import io

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.block import Block
from tvm_sparse.pruning import BalancedPruning, Exponential, Levels, PatternPruning, Pruner


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4))


def batch(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(8, 32, generator=generator), torch.randint(4, (8,), generator=generator)


def loss_of(model, seed):
    x, y = batch(seed)
    return nn.functional.cross_entropy(model(x), y)


def zeros(model):
    return {name: int((m.weight == 0).sum()) for name, m in model.named_children() if name != "1"}


def test_training_keeps_the_zeros_with_momentum_and_weight_decay():
    model = network()
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}
    optimizer = torch.optim.SGD(model.parameters(), **options)  # before the pruner, as users do
    pruner = Pruner(model, BalancedPruning(0.75), schedule=Levels([0.5, 0.75]))
    before = model[0].weight.detach().clone()
    for step in range(2):
        pruner.step()
        for seed in range(3):
            optimizer.zero_grad()
            loss_of(model, seed + 10 * step).backward()
            optimizer.step()
    assert zeros(model) == {"0": 384, "2": 48}
    assert not torch.equal(model[0].weight[model[0].weight != 0], before[model[0].weight != 0])
    assert pruner.squash_mask() is model
    assert zeros(model) == {"0": 384, "2": 48}
    assert set(model.state_dict()) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_steps_between_pruning_epochs_do_nothing():
    pruner = Pruner(network(), BalancedPruning(0.75), schedule=Exponential(2, start=0, every=2))
    reports = [pruner.step() for _ in range(5)]
    assert [r is None for r in reports] == [False, True, False, True, True]
    assert reports[0].sparsity == 0
    assert reports[2].sparsity == 0.75
    assert pruner.report is reports[2]


def test_resuming_after_a_kill_continues_exactly():
    def prepared():
        model = network()
        method = PatternPruning(Block(4, 4), 0.75, criterion="taylor")
        pruner = Pruner(model, method, schedule=Levels([0.5, 0.75]))
        return model, pruner, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train(model, pruner, optimizer, seeds):
        for seed in seeds:
            optimizer.zero_grad()
            loss_of(model, seed).backward()
            pruner.accumulate()
            optimizer.step()

    through = prepared()
    train(*through, range(3))
    through[1].step()
    train(*through, range(3, 5))
    file = io.BytesIO()
    torch.save([part.state_dict() for part in through], file)
    file.seek(0)
    resumed = prepared()
    for part, state in zip(resumed, torch.load(file, weights_only=True), strict=True):
        part.load_state_dict(state)
    for run in (through, resumed):
        train(*run, range(5, 7))
        run[1].step()
    assert resumed[1].report == through[1].report
    for key, value in through[0].state_dict().items():
        assert torch.equal(value, resumed[0].state_dict()[key]), key


def test_state_of_another_method_or_of_other_layers_is_refused():
    state = Pruner(network(), BalancedPruning(0.5)).state_dict()
    with pytest.raises(InputError, match="was saved by BalancedPruning"):
        Pruner(network(), BalancedPruning(0.75)).load_state_dict(state)
    with pytest.raises(InputError, match=r"other layers: 2\.weight"):
        Pruner(network(), BalancedPruning(0.5), ignore=["2"]).load_state_dict(state)


def test_a_second_pruner_goes_on_from_the_masks_of_the_first():
    model = network()
    first = Pruner(model, BalancedPruning(0.5))
    first.step()
    before = first.masks["0.weight"].clone()
    second = Pruner(model, BalancedPruning(0.75))
    second.step()
    assert not (second.masks["0.weight"] & ~before).any()
    assert second.report.sparsity == 0.75


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    model = network()
    Pruner(model, BalancedPruning(0.75)).step()
    with torch.autocast("cpu", dtype=dtype):
        output = model(batch(0)[0])
    assert output.dtype == dtype
    output.float().sum().backward()
    gradient = model[0].parametrizations.weight.original.grad
    assert gradient.dtype == torch.float32
    assert not gradient[model[0].weight == 0].any()


def test_a_loss_scale_does_not_change_the_scores():
    scores = []
    for scale in (1.0, 1024.0):
        model = network()
        pruner = Pruner(model, PatternPruning(Block(4, 4), 0.5, criterion="taylor"))
        (loss_of(model, 0) * scale).backward()
        pruner.accumulate(grad_scale=scale)
        scores.append(pruner.state_dict()["importance"]["0.weight"])
    torch.testing.assert_close(*scores)


def test_a_compiled_model_sees_new_masks():
    model = network()
    pruner = Pruner(model, BalancedPruning(0.75), schedule=Levels([0.5, 0.75]))
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    x = batch(0)[0]
    for _ in range(2):
        pruner.step()
        torch.testing.assert_close(compiled(x), model(x))
        compiled(x).sum().backward()
    assert zeros(model) == {"0": 384, "2": 48}
    assert counter.frame_count == 1
    torch._dynamo.reset()


def test_weights_that_are_not_finite_are_named():
    model = network()
    model[2].weight.data[0, 0] = float("inf")
    with pytest.raises(InputError, match="2: the weight holds NaN"):
        Pruner(model, BalancedPruning(0.5)).step()
