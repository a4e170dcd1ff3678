"""``precision="bfloat16"``: layers multiply rounded numbers, and the user is told the cost."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.program.test_compiler import prune_banks
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.tuning.tuner import Settings

pytestmark = pytest.mark.isa("avx512bf16", "avx512vbmi")
FAST = ts.Config(measure=False)


def narrow(model, x, **options):
    return ts.compile(model, x, precision="bfloat16", config=FAST, **options)


def rounded(values):
    """Return ``values`` rounded to bfloat16, as float64."""
    return np.asarray(values, np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


class Mixed(nn.Module):
    """Every form of layer: grouped, depthwise, residual, pooled, linear behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.deep = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.again = nn.Conv2d(32, 32, 3, padding=1)
        self.point = nn.Conv2d(32, 64, 1, bias=False)
        self.norm = nn.BatchNorm2d(64)
        self.grouped = nn.Conv2d(64, 64, 3, padding=1, stride=2, groups=2)
        self.skip = nn.Conv2d(64, 64, 1, stride=2)
        self.hidden = nn.Linear(64, 33)
        self.last = nn.LayerNorm(33)
        self.head = nn.Linear(33, 7)

    def forward(self, x):
        x = torch.relu(self.deep(torch.relu(self.stem(x))))
        x = x + self.again(torch.relu(x))
        x = torch.relu(self.norm(self.point(x)))
        x = torch.relu(self.grouped(x) + self.skip(x)).mean((2, 3))
        return self.head(self.last(nn.functional.gelu(self.hidden(x))))


@pytest.mark.grid
@pytest.mark.parametrize("pruned", [False, True])
def test_layers_multiply_rounded_numbers_and_add_up_floats(pruned):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 20)).eval(), None
    if pruned:
        prune_banks(model, 4)
    x = torch.randn(5, 64)
    library = narrow(model, x)
    if pruned:
        assert {d.chosen for d in library.decisions} != {"dense"}
    w, b = ([p.detach().numpy() for p in (layer.weight, layer.bias)] for layer in model[::2])
    hidden = np.maximum(rounded(x) @ rounded(w[0]).T + w[1], 0)
    expected = rounded(hidden) @ rounded(b[0]).T + b[1]
    np.testing.assert_allclose(library(x).numpy(), expected, rtol=1e-2, atol=1e-3)
    exact = model(x).detach().numpy()
    largest = np.abs(exact).max()
    error = np.abs(library(x).numpy() - exact).max() / largest
    found = library.decisions.rounding
    assert found.inputs == "the example inputs"
    assert 1e-5 < error == pytest.approx(found.error, rel=1e-2)
    assert found.error < 2e-2
    assert f"products of bfloat16, error {found.error:.1e}" in library.verdict()


def test_a_network_rounds_what_is_multiplied_and_nothing_else():
    torch.manual_seed(0)
    model, x = Mixed().eval(), torch.randn(2, 3, 12, 12)
    library = narrow(model, x)
    reasons = {d.layer: d.reason for d in library.decisions}
    assert reasons.pop("deep").startswith("float32: a depthwise layer")
    assert all(reason.startswith("multiplies bfloat16") for reason in reasons.values())
    assert len(reasons) == 7
    got, expected = library(x), model(x).detach()
    assert 0 < float((got - expected).abs().max()) < 2e-2 * float(expected.abs().max())
    # Only what a residual reads too is rounded by a kernel of its own.
    alone = [k.function for k in library.kernels if k.function.startswith("round_half")]
    assert len(alone) <= 1


def test_code_has_the_instruction():
    model, x = nn.Linear(64, 48).eval(), torch.randn(4, 64)
    (module,) = narrow(model, x).executable.mod.imports
    assert "vdpbf16ps" in module.inspect_source("asm")


def test_one_row_and_an_open_batch():
    torch.manual_seed(0)
    model, x = nn.Linear(64, 48).eval(), torch.randn(64)
    expected = model(x).detach()
    assert float((narrow(model, x)(x) - expected).abs().max()) < 1e-2
    batch = {"input": {0: torch.export.Dim("batch")}}
    library = narrow(model, torch.randn(2, 64), dynamic_shapes=batch)
    for rows in (1, 3, 17):
        y = torch.randn(rows, 64)
        assert float((library(y) - model(y).detach()).abs().max()) < 2e-2


def test_layers_of_bytes_stay_so():
    pytest.importorskip("torchao")
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16)).eval(), None
    x = torch.randn(4, 64)
    program = ts.quantize(model, [(x,)], ignore=["2"])
    library = ts.compile(program, precision="bfloat16", config=FAST)
    names = [k.function for k in library.kernels]
    assert any("linear_dense_uint8" in name for name in names)
    reasons = [d.reason for d in library.decisions]
    assert sum("multiplies bfloat16" in reason for reason in reasons) == 1
    assert library.decisions.rounding.inputs == "random inputs"


def test_weights_that_bfloat16_does_not_reach_stay_float():
    layer = nn.Linear(32, 16).eval()
    layer.weight.data[0, 0] = 3.4e38
    library = narrow(layer, torch.zeros(1, 32))
    (decision,) = library.decisions
    assert decision.reason.startswith("float32: a weight is too large")


def test_a_refreshed_artifact_rounds_its_new_values(tmp_path):
    from safetensors.torch import save_file

    from tvm_sparse.program.refresh import refresh
    from tvm_sparse_runtime import load

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 32)).eval(), torch.randn(3, 64)
    config = ts.Config(measure=False, refreshable=True, precision="bfloat16")
    ts.compile(model, (x,), config=config).export(tmp_path / "a.tvms")
    other = nn.Sequential(nn.Linear(64, 32)).eval()
    save_file(other.state_dict(), tmp_path / "w.safetensors")
    refresh(tmp_path / "a.tvms", tmp_path / "w.safetensors", tmp_path / "b.tvms")
    expected = narrow(other, x)(x)
    torch.testing.assert_close(load(tmp_path / "b.tvms")(x), expected, rtol=0, atol=0)


def test_another_cpu_is_not_run():
    library = narrow(nn.Linear(32, 16).eval(), torch.zeros(1, 32), target="cpu:sapphirerapids")
    assert library.decisions.rounding.error is None
    assert "error not measured" in library.verdict()


@pytest.mark.parametrize("target", ["cpu:haswell", "cpu:skylake-avx512", "aarch64", "cuda:sm_90"])
def test_chips_without_such_products_are_refused(target):
    with pytest.raises(UnsupportedError, match=r"'bfloat16' for .*gain nothing.*BF16"):
        narrow(nn.Linear(32, 16).eval(), torch.zeros(1, 32), target=target)


def test_other_types_are_refused():
    with pytest.raises(InputError, match=r"precision.*float16.*'bfloat16'"):
        ts.compile(nn.Linear(8, 8), (torch.zeros(1, 8),), precision="float16")


@pytest.mark.slow
def test_layers_are_tuned_and_records_say_what_they_multiply(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16)).eval()
    config = ts.Config(measure=False, precision="bfloat16")
    records = tmp_path / "records.jsonl"
    small = Settings(batch=2, population=4, rounds=1, finalists=1)
    x = torch.randn(8, 64)
    report = ts.tune(model, (x,), trials=4, database=records, config=config, settings=small)
    assert not report.skipped
    assert {layer for task in report.tasks for layer in task.layers} == {"0", "2"}
    lines = records.read_text(encoding="utf-8").splitlines()
    assert lines
    assert all("bfloat16" in line for line in lines)


@pytest.mark.grid
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_states_stay_float32(kind):
    """A state near one grows or shrinks by less than bfloat16 can tell in a step."""
    torch.manual_seed(0)
    model, x = kind(16, 32, batch_first=True).eval(), torch.randn(1, 16, 16)
    one = torch.ones(1, 1, 32)
    bias = [20, 20, 2**-9, 20] if kind is nn.LSTM else [0, float(np.log(511)), -3]
    with torch.no_grad():
        model.weight_ih_l0.mul_(2**-12)
        model.weight_hh_l0.mul_(2**-12)
        model.bias_hh_l0.zero_()
        model.bias_ih_l0.copy_(torch.tensor(bias).repeat_interleave(32))
    state = (one, one) if kind is nn.LSTM else one
    library = narrow(model, (x, state))
    (wanted, last), (found, ours) = model(x, state), library(x, state)
    if kind is nn.LSTM:
        last, ours = last[1], ours[1]
    assert 0.02 < (last - 1).abs().min()
    torch.testing.assert_close(ours, last, rtol=0, atol=1e-4)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
