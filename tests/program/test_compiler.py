"""``ts.compile`` on small networks: right results, recorded decisions, clear refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
import tvm_sparse_runtime as runtime
from tvm_sparse.base import targets
from tvm_sparse.frontends.load import load

FAST = ts.Config(measure=False)


def prune_banks(model: nn.Module, keep: int) -> None:
    """Keep the ``keep`` largest of each 16 neighbouring input channels of a tap."""
    for layer in model.modules():
        weight = getattr(layer, "weight", None)
        if not isinstance(layer, nn.Linear | nn.Conv2d) or weight.shape[1] % 16:
            continue
        moved = weight.data.movedim(1, -1)
        banks = moved.reshape(*moved.shape[:-1], -1, 16)
        rank = banks.abs().argsort(-1, descending=True).argsort(-1)
        weight.data = (banks * (rank < keep)).reshape(moved.shape).movedim(-1, 1).contiguous()


def assert_close(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert got.shape == expected.shape
    scale = float(expected.detach().abs().max())
    assert float((got - expected.detach()).abs().max()) <= 1e-5 * max(scale, 1e-6)


class Residual(nn.Module):
    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=2, dilation=2)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(x + self.bn2(self.conv2(y)))


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1),
        nn.Hardswish(),
        Residual(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1, groups=32),
        nn.SiLU(),
        nn.Conv2d(32, 48, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 10),
    )
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
    return model.eval()


class Attention(nn.Module):
    def __init__(self, width: int = 48, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, -1)
        joined = (scores @ v).transpose(1, 2).reshape(b, t, d)
        return self.norm(x + torch.nn.functional.gelu(self.out(joined)))


@pytest.mark.grid
@pytest.mark.parametrize("keep", [16, 4, 1])
def test_convolutional_network(keep):
    model, x = convolutional(), torch.randn(2, 3, 20, 24)
    prune_banks(model, keep)
    library = ts.compile(model, (x,), config=FAST)
    assert_close(library(x), model(x))
    chosen = {d.layer: d.chosen for d in library.decisions}
    assert chosen["0"] == "dense"
    assert chosen["2.conv1"] == ("winograd" if keep == 16 else "balanced")
    assert set(chosen) == {"0", "2.conv1", "2.conv2", "4", "6", "9"}


@pytest.mark.grid
@pytest.mark.parametrize("tokens", [16, 23])
def test_attention(tokens):
    torch.manual_seed(0)
    model, x = Attention().eval(), torch.randn(1, tokens, 48)
    prune_banks(model, 4)
    library = ts.compile(model, (x,), config=FAST)
    assert_close(library(x), model(x))
    assert [d.chosen for d in library.decisions] == ["balanced", "balanced"]


def test_lstm():
    torch.manual_seed(0)
    model, x = nn.LSTM(32, 48, batch_first=True).eval(), torch.randn(1, 5, 32)
    library = ts.compile(model, (x,), config=FAST)
    got, expected = library(x), model(x)[0]
    assert_close(got[0], expected)
    assert {d.layer for d in library.decisions} == {"weight_ih_l0", "weight_hh_l0"}


def test_dynamic_batch():
    model, x = convolutional(), torch.randn(3, 3, 20, 24)
    prune_banks(model, 4)
    loaded = ts.load(model, (x,), dynamic_batch=True)
    library = ts.compile(loaded, config=FAST)
    for batch in (1, 2, 5):
        x = torch.randn(batch, 3, 20, 24)
        assert_close(library(x), model(x))


def test_numpy_in_numpy_out():
    model = nn.Linear(32, 16).eval()
    x = np.random.default_rng(0).standard_normal((4, 32), np.float32)
    got = ts.compile(model, (torch.from_numpy(x),), config=FAST)(x)
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, model(torch.from_numpy(x)).detach(), rtol=1e-5, atol=1e-5)


def test_a_shared_weight_is_packed_once():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 32)

        def forward(self, x):
            return self.fc(torch.relu(self.fc(x)))

    torch.manual_seed(0)
    model, x = Twice().eval(), torch.randn(4, 32)
    prune_banks(model, 2)
    library = ts.compile(model, (x,), config=FAST)
    assert_close(library(x), model(x))
    assert len(list(library.decisions)) == 1
    assert sorted(library.weights) == ["fc.bias", "fc.weight.indices", "fc.weight.values"]


def test_measured_choice_records_both_times():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(256, 256)).eval(), torch.randn(32, 256)
    prune_banks(model, 1)
    (decision,) = ts.compile(model, (x,)).decisions
    assert decision.dense_us > 0 and decision.sparse_us > 0
    assert decision.chosen == ("balanced" if decision.sparse_us < decision.dense_us else "dense")
    assert decision.reason.startswith("measured")


def test_ignored_and_forced_layers():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32)).eval(), torch.randn(4, 32)
    prune_banks(model, 12)
    config = ts.Config(measure=False, ignore=("0",), force={"1": "balanced"})
    library = ts.compile(model, (x,), config=config)
    assert [d.chosen for d in library.decisions] == ["dense", "balanced"]
    assert next(d.reason for d in library.decisions) == "dense on request (ignore or force)"
    assert_close(library(x), model(x))


def test_what_has_no_operator_stays_dense_and_says_so():
    torch.manual_seed(0)
    model, x = nn.Linear(16, 16).double().eval(), torch.randn(4, 16).double()
    library = ts.compile(model, (x,), target="cuda:sm_80", config=FAST)
    (decision,) = library.decisions
    assert decision.chosen == "dense" and "float64 weights" in decision.reason


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda m: m[0].weight.data.fill_(float("nan")), "layer '0': weight[0, 0] is nan"),
        (lambda m: m[1].weight.data[2, 5].fill_(float("inf")), "layer '1': weight[2, 5] is inf"),
    ],
)
def test_weights_that_are_not_finite(change, message):
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)).eval()
    change(model)
    with pytest.raises(ts.InputError, match="finite") as caught:
        ts.compile(model, (torch.randn(2, 16),), config=FAST)
    assert message in str(caught.value)


def test_a_format_that_does_not_fit():
    model = nn.Sequential(nn.Linear(8, 16)).eval()
    model[0].weight.data[:, :4] = 0
    with pytest.raises(ts.InputError, match="does not fit 'balanced'"):
        ts.compile(model, (torch.randn(2, 8),), config=ts.Config(force={"0": "balanced"}))


def test_sparse_false_compiles_everything_dense():
    model, x = convolutional(), torch.randn(1, 3, 20, 24)
    prune_banks(model, 2)
    library = ts.compile(model, (x,), config=ts.Config(sparse=False, measure=False))
    assert {d.chosen for d in library.decisions} == {"dense", "winograd"}
    assert_close(library(x), model(x))


def test_other_cpus_are_built_but_never_measured():
    model, x = nn.Sequential(nn.Linear(64, 64)).eval(), torch.randn(4, 64)
    prune_banks(model, 2)
    (decision,) = ts.compile(model, (x,), target="cpu:haswell").decisions
    assert "not measured" in decision.reason


def test_kernels_of_a_gpu_that_is_here_are_chosen_by_the_model(monkeypatch):
    monkeypatch.setattr(targets, "_runs_here", lambda target: True)
    model, x = nn.Sequential(nn.Linear(1024, 1024)).eval().half(), torch.randn(64, 1024).half()
    prune_banks(model, 2)
    (decision,) = ts.compile(model, (x,), target="cuda:sm_90").decisions
    assert decision.modelled_us
    assert "measured" not in decision.reason.replace("not measured", "")


@pytest.mark.grid
@pytest.mark.parametrize("tokens", [8, 13, 31, 69])
@pytest.mark.parametrize("blocks", [False, True])
def test_any_batch_of_sequences_that_no_tile_divides(tokens, blocks):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(48, 96), nn.Tanh(), nn.Linear(96, 64), nn.LayerNorm(64)).eval()
    prune_banks(model, 3)
    if blocks:
        for layer in (model[0], model[2]):
            rows, columns = layer.weight.shape
            kept = torch.rand(rows // 16, columns // 16) < 0.3
            dense = torch.randn(rows, columns)
            layer.weight.data = dense * kept.repeat_interleave(16, 0).repeat_interleave(16, 1)
    library = ts.compile(
        load(model, (torch.randn(2, tokens, 48),), dynamic_batch=True), config=FAST
    )
    for batch in (1, 2, 5):
        x = torch.randn(batch, tokens, 48)
        assert_close(library(x), model(x))


def test_progress_is_told_of_every_layer():
    model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), torch.randn(4, 64)
    told: list[tuple[str, int, int]] = []
    ts.compile(model.eval(), (x,), config=FAST, progress=lambda *step: told.append(step))
    steps = {"choosing": 2}
    expected = [
        (phase, step, steps.get(phase, 1))
        for phase in ("importing", "folding", "choosing", "scheduling", "building")
        for step in range(steps.get(phase, 1) + 1)
    ]
    assert told == expected


def test_a_batch_outside_its_bounds_is_refused_by_name(tmp_path):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    source = load(model, (torch.rand(2, 4),), dynamic_batch=(2, 8))
    library = ts.compile(source, config=FAST)
    deployed = runtime.load(library.export(tmp_path / "a"))
    assert library.bounds == deployed.bounds == {"batch": (2, 8)}
    for count in (2, 8):
        x = torch.rand(count, 4)
        assert_close(deployed(x), model(x))
    for count in (0, 1, 9, 4000):
        for called in (library, deployed):
            with pytest.raises(runtime.TensorError, match="expected batch = 2 to 8"):
                called(torch.rand(count, 4))


def test_a_library_and_its_decisions_show_themselves():
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
    library = ts.compile(model, torch.zeros(2, 32), config=ts.Config(measure=False))
    text = repr(library)
    assert text.startswith("<Library for cpu:")
    assert "0 of 2 layers sparse; 0.0 MiB of weights>" in text
    assert repr(library.decisions) == "<Decisions: 0 of 2 layers sparse>"
    page = library._repr_html_()
    assert page.count("<tr>") == 3
    assert "&lt;Library for" in page
