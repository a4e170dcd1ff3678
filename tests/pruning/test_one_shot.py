"""One-shot pruning: patterns hold, outputs stay nearer than by magnitude, runs resume."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.detector import detect
from tvm_sparse.pruning import (
    BalancedPruning,
    DEPrune,
    FilterPruning,
    JointPruning,
    PatternPruning,
    Pruner,
    UnstructuredPruning,
    one_shot,
    prune,
)

METHODS = [
    BalancedPruning(0.5),
    BalancedPruning(0.5, bank=4),
    BalancedPruning(0.75, share=2),
    BalancedPruning(0.6, rounding="reach"),
    PatternPruning(Block(16, 1), 0.5),
    PatternPruning(Block(4, 4), 0.5),
    JointPruning(0.5, criterion="magnitude"),
    JointPruning(0.5),
    UnstructuredPruning(0.5),
    UnstructuredPruning(0.5, "global"),
]


def correlated(*shape, seed=0):
    """Inputs whose columns say much of each other, as real activations do."""
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(shape[-1], shape[-1], generator=generator)
    return torch.randn(shape, generator=generator) @ (mixed * 0.3 + torch.eye(shape[-1]))


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32)
    )


def batches(seed=0):
    return list(correlated(256, 64, seed=seed).split(64))


def distance(model, other, x):
    with torch.no_grad():
        wanted = other(x)
        return float((model(x) - wanted).square().mean() / wanted.square().mean())


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.describe())
def test_outputs_stay_nearer_than_by_magnitude(method):
    model, data = network(), batches()
    dense = copy.deepcopy(model)
    pruner = one_shot(model, data, method)
    plain = copy.deepcopy(dense)
    kept = method if not method.gradients else JointPruning(0.5, criterion="magnitude")
    prune(plain, kept)
    assert pruner.report.sparsity == pytest.approx(Pruner(plain, kept).step().sparsity, abs=0.02)
    fresh = correlated(256, 64)
    assert distance(model, dense, fresh) < 0.6 * distance(plain, dense, fresh)
    for layer in pruner.report.layers:
        assert "of its output lost" in layer.note
    assert all(torch.isfinite(p).all() for p in pruner.squash_mask().parameters())


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.describe())
def test_swaps_bring_outputs_nearer(method):
    found = {}
    for rounds in (0, 12):
        model, data = network(), batches()
        dense = copy.deepcopy(model)
        report = one_shot(model, data, method, swaps=rounds, ignore=["2", "4"]).report
        found[rounds] = distance(model[0], dense[0], torch.cat(data)), report
    assert found[12][0] <= found[0][0] * (1 + 1e-6)
    assert found[12][1].sparsity == found[0][1].sparsity
    assert not found[0][1].note
    moved = found[12][1].note.startswith("Swaps moved ")
    assert moved == (found[12][0] < found[0][0])
    assert moved or isinstance(method, PatternPruning)  # few blocks: the first choice stays


@pytest.mark.parametrize(
    "method",
    [
        BalancedPruning(0.75),
        BalancedPruning(0.5, share=2),
        BalancedPruning(0.5, criterion="taylor"),
    ],
    ids=lambda m: m.describe(),
)
def test_banks_ranked_alone_are_those_ranked_with_all_others(method, monkeypatch):
    def pruned():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(24, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 40))
        data = torch.randn(64, 24, 6, 6)
        for step in (replace(method, sparsity=0.25), method):  # what is gone already stays so
            one_shot(model, [data], step, swaps=0).squash_mask()
        return model.state_dict()

    found = pruned()
    monkeypatch.setattr(BalancedPruning, "mask_of", lambda self, scores: None)
    for name, value in pruned().items():
        assert torch.equal(value, found[name])


def test_masks_have_the_pattern():
    model = network()
    one_shot(model, batches(), BalancedPruning(0.75)).squash_mask()
    for index in (0, 2, 4):
        weight = model[index].weight.detach()
        assert (weight.reshape(len(weight), -1, 16) != 0).sum(-1).eq(4).all()
        assert detect(weight.numpy()).best.pattern == Balanced(16, 4)


def test_without_pruning_nothing_changes():
    model, dense = network(), network()
    one_shot(model, batches(), BalancedPruning(0.0), damping=1e-6).squash_mask()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, dense.state_dict()[name], rtol=1e-4, atol=1e-5)


class Images(nn.Module):
    """Convolutions that read one input, a depthwise one, and one that is called twice."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(4, 16, 1)
        self.deep = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.twice, self.head = nn.Conv2d(16, 16, 1), nn.Linear(16, 8)
        self.never = nn.Linear(16, 8)

    def forward(self, x):
        x = torch.relu_(self.left(x)) + self.right(x)
        x = torch.relu_(self.twice(torch.relu_(self.deep(x))))
        return self.head(self.twice(x).mean((2, 3)))


def test_convolutions_and_layers_called_never_or_twice():
    torch.manual_seed(0)
    model = Images()
    dense, x = copy.deepcopy(model), torch.randn(16, 4, 8, 8)
    pruner = one_shot(model, [x[:8], x[8:]], UnstructuredPruning(0.4))
    assert pruner.report.skipped["never"] == "is not called on the calibration data"
    assert (model.never.weight != 0).all()
    plain = copy.deepcopy(dense)
    prune(plain, UnstructuredPruning(0.4))
    fresh = torch.randn(16, 4, 8, 8)
    assert distance(model, dense, fresh) < 0.5 * distance(plain, dense, fresh)
    assert model.twice.weight.eq(0).float().mean() == pytest.approx(0.4, abs=0.01)


def test_removed_filters_are_made_up_for_in_the_next_layer():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16))
    dense, data = copy.deepcopy(model), list(correlated(256, 32).split(64))
    one_shot(model, data, FilterPruning(0.5), ignore=["2"], reference=1.0)
    plain = copy.deepcopy(dense)
    prune(plain, FilterPruning(0.5), ignore=["2"])
    assert torch.equal(model[0].weight == 0, plain[0].weight == 0)
    fresh = correlated(256, 32)
    assert distance(model, dense, fresh) < 0.6 * distance(plain, dense, fresh)


def separable():
    torch.manual_seed(0)
    block = [
        *(nn.Conv2d(8, 32, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 16, 1, bias=False), nn.BatchNorm2d(16)),
    ]
    return nn.Sequential(*block).eval()


def test_depthwise_taps_adapt_channel_by_channel():
    model, data = separable(), [torch.randn(4, 8, 8, 8) for _ in range(3)]
    dense, plain = copy.deepcopy(model), copy.deepcopy(model)
    one_shot(model, data, DEPrune(0.5, 0.0))
    prune(plain, DEPrune(0.5, 0.0))
    assert torch.equal(model[3].weight == 0, plain[3].weight == 0)
    fresh = torch.randn(4, 8, 8, 8)
    assert distance(model, dense, fresh) < distance(plain, dense, fresh)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN, "transformer", "conv1d"])
def test_other_layers(kind):
    torch.manual_seed(0)
    recurrent = not isinstance(kind, str)
    if recurrent:
        model, x = kind(16, 32, num_layers=2), correlated(6, 32, 16)
    elif kind == "transformer":
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        model, x = (
            nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            correlated(16, 6, 32),
        )
    else:
        utils = pytest.importorskip("transformers.pytorch_utils")
        model, x = nn.Sequential(utils.Conv1D(48, 32), nn.ReLU(), utils.Conv1D(16, 48)), None
        x = correlated(128, 32)
        for layer in (model[0], model[2]):
            nn.init.normal_(layer.weight, std=0.2)
    model.eval()
    dense, plain = copy.deepcopy(model), copy.deepcopy(model)
    pruner = one_shot(model, [x], BalancedPruning(0.5))
    prune(plain, BalancedPruning(0.5))
    assert pruner.report.sparsity == pytest.approx(0.5)

    def first(module):
        return lambda y: module(y)[0] if recurrent else module(y)

    assert distance(first(model), first(dense), x) < 0.7 * distance(first(plain), first(dense), x)
    if kind == "conv1d":
        banks = (model[0].weight.T != 0).reshape(48, -1, 16)
        assert banks.sum(-1).eq(8).all()


def test_a_run_is_repeatable_and_resumes(tmp_path):
    first, second, third = network(), network(), network()
    one_shot(first, batches(), BalancedPruning(0.5))

    def stop(layer, done, layers, seconds_left):
        assert layers == 3
        assert seconds_left >= 0
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one_shot(second, batches(), BalancedPruning(0.5), resume=tmp_path, progress=stop)
    assert sorted(p.name for p in tmp_path.glob("*.safetensors")) == [
        "0.weight.safetensors",
        "2.weight.safetensors",
    ]
    untouched = network().state_dict()
    assert all(torch.equal(v, untouched[k]) for k, v in second.state_dict().items())
    one_shot(second, batches(), BalancedPruning(0.5), resume=tmp_path)
    one_shot(third, batches(), BalancedPruning(0.5))
    for model in (second, third):
        for (name, value), other in zip(
            model.state_dict().items(), first.state_dict().values(), strict=True
        ):
            assert torch.equal(value, other), name


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"method": BalancedPruning(0.75)}, "method"),
        ({"damping": 0.1}, "damping"),
        ({"calibration": batches(1)}, "calibration"),
    ],
)
def test_another_run_is_not_gone_on_with(tmp_path, change, named):
    options = {"calibration": batches(), "method": BalancedPruning(0.5), "resume": tmp_path}
    one_shot(network(), **options)
    with pytest.raises(InputError, match=f"another {named}"):
        one_shot(network(), **{**options, **change})


@pytest.mark.parametrize("damage", [b"", b"{", b"x" * 100])
def test_a_damaged_layer_is_named(tmp_path, damage):
    one_shot(network(), batches(), BalancedPruning(0.5), resume=tmp_path)
    (tmp_path / "2.weight.safetensors").write_bytes(damage)
    with pytest.raises(InputError, match=r"2\.weight\.safetensors.*cannot be read"):
        one_shot(network(), batches(), BalancedPruning(0.5), resume=tmp_path)


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_calibration_that_is_not_finite_is_refused_and_nothing_is_lost(odd):
    model, data = network(), batches()
    data[1][3, 5] = odd
    with pytest.raises(InputError, match=r"layer '0'.*NaN or infinite"):
        one_shot(model, data, BalancedPruning(0.5))
    dense = network().state_dict()
    assert model.state_dict().keys() == dense.keys()
    assert all(torch.equal(v, dense[k]) for k, v in model.state_dict().items())


def test_no_calibration_is_refused():
    with pytest.raises(InputError, match="no batch"):
        one_shot(network(), [], BalancedPruning(0.5))


def test_what_was_pruned_before_stays_pruned():
    model = network()
    pruner = Pruner(model, UnstructuredPruning(0.3))
    pruner.step()
    before = {k: v.clone() for k, v in pruner.masks.items()}
    after = one_shot(model, batches(), BalancedPruning(0.5)).masks
    assert all((after[k] <= before[k]).all() for k in before)


def test_training_mode_is_kept():
    model = network().train()
    model[1].eval()
    one_shot(model, batches(), BalancedPruning(0.5))
    assert model.training
    assert not model[1].training


def test_no_weight_is_so_small_that_processors_take_long():
    model, inputs = network(), correlated(64, 64)
    with torch.no_grad():
        model[0].weight[:8] *= 1e-38
    one_shot(model, [inputs], BalancedPruning(0.5), include=["0"])
    sizes = model[0].weight.detach().abs()
    assert (sizes > 0).sum() > 1500
    assert not ((sizes > 0) & (sizes < torch.finfo(torch.float32).tiny)).any()
