"""``ts.quantize``: from a pruned module to a library of bytes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.utils import prune

import tvm_sparse as ts
from tests.zoo import package
from tvm_sparse.frontends.program.left_float import LEFT_FLOAT


class Residual(nn.Module):
    """Convolutions with batch norm, a residual sum, pooling and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32)
        self.body, self.head = nn.Conv2d(32, 32, 3, padding=1), nn.Linear(32, 10)
        self.act = nn.ReLU()  # used twice

    def forward(self, x):
        x = self.act(self.norm(self.stem(x)))
        x = self.act(x + self.body(x))
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    made = Residual().eval()
    with torch.no_grad():
        made.norm.running_mean.normal_()
        made.norm.running_var.uniform_(0.5, 2)
    prune.l1_unstructured(made.body, "weight", 0.9)
    return made


@pytest.fixture(scope="module")
def batches():
    return [torch.randn(1, 3, 16, 16) for _ in range(3)]


def compiled(program):
    return ts.compile(program, config=ts.Config(measure=False, tuned=False))


def test_a_pruned_module_becomes_a_library_of_bytes(model, batches):
    program = ts.quantize(model, batches)
    library = compiled(program)
    x = batches[0]
    difference = library(x) - program.module()(x)
    assert difference.abs().max() < 1e-3
    scale = model(x).abs().max()
    assert (library(x) - model(x)).abs().max() < 0.05 * scale
    decisions = {d.layer: d for d in library.decisions}
    assert list(decisions) == ["stem", "body", "head"]
    assert decisions["body"].sparsity == pytest.approx(0.9, abs=0.02)
    assert decisions["body"].chosen != "dense"
    assert all("uint8" in k.function for k in library.kernels if k.layer)
    config = ts.Config(measure=False, tuned=False)
    assert library.nbytes < 0.7 * ts.compile(model, (x,), config=config).nbytes


def test_layers_can_stay_float(model, batches):
    library = compiled(ts.quantize(model, batches, ignore=["body"]))
    kernels = {k.layer: k.function for k in library.kernels if k.layer}
    assert "uint8" in kernels["stem"]
    assert "uint8" not in kernels["body"]


class Uneven(nn.Module):
    """Linear layers, the input of one of which has a channel far beyond the others."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.uneven, self.head = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 8)

    def forward(self, x):
        y = torch.relu(self.plain(x))
        return self.head(torch.relu(self.uneven(torch.cat([500 * y[:, :1], y[:, 1:]], 1))))


@pytest.mark.grid
@pytest.mark.parametrize("activations", ["static", "dynamic"])
def test_layers_that_lose_most_stay_float(activations):
    torch.manual_seed(0)
    uneven, x = Uneven().eval(), [torch.randn(16, 32) for _ in range(2)]
    with torch.no_grad():
        uneven.uneven.weight[:, 0] = 0  # what is large does not count
    program = ts.quantize(uneven, x, activations=activations, tolerance=0.03)
    left = program.graph_module.meta[LEFT_FLOAT]
    assert left.keys() == {"uneven"}
    library = compiled(program)
    reasons = {d.layer: d.reason for d in library.decisions}
    told = f"left float: in bytes its output would change by {left['uneven']:.1%} (tolerance 3.0%)"
    assert reasons["uneven"].startswith(told)
    assert not any("left float" in reasons[name] for name in ("plain", "head"))
    names = [k.function for k in library.kernels if k.contraction]
    assert sum("int8" in name for name in names) == 2
    expected = uneven(x[0]).detach()
    error = [
        float((compiled(p)(x[0]) - expected).norm() / expected.norm())
        for p in (program, ts.quantize(uneven, x, activations=activations))
    ]
    assert error[0] < 0.03 < min(left["uneven"], error[1])


def test_files_keep_why_layers_stay_float(tmp_path):
    torch.manual_seed(0)
    uneven, x = Uneven().eval(), torch.randn(16, 32)
    with torch.no_grad():
        uneven.uneven.weight[:, 0] = 0
    program = ts.quantize(uneven, [x], tolerance=0.03)
    torch.export.save(program, tmp_path / "program.pt2")
    notes = {row.layer: row.note for row in ts.inspect(tmp_path / "program.pt2").rows}
    loss = program.graph_module.meta[LEFT_FLOAT]["uneven"]
    told = f"left float: in bytes its output would change by {loss:.1%} (tolerance 3.0%)"
    assert notes == {"plain": "", "uneven": told, "head": ""}
    reasons = {d.layer: d.reason for d in compiled(tmp_path / "program.pt2").decisions}
    assert reasons["uneven"].startswith(told)


def test_losses_are_those_of_one_layer_alone(model, batches):
    """A layer of which all else is float changes the output as much as its loss says."""
    every = ts.quantize(model, batches, tolerance=1e-9).graph_module.meta[LEFT_FLOAT]
    assert every.keys() == {"stem", "body", "head"}
    alone = ts.quantize(model, batches, ignore=["stem", "body"])
    outputs = [torch.cat([m(x).detach() for x in batches]) for m in (alone.module(), model)]
    change = float((outputs[0] - outputs[1]).norm() / outputs[1].norm())
    assert change == pytest.approx(every["head"], rel=0.05)


def test_linear_layers_may_find_their_scales_when_they_run(model, batches):
    program = ts.quantize(model, batches, activations="dynamic")
    library = compiled(program)
    kernels = {k.layer: k.function for k in library.kernels if k.layer}
    assert list(kernels) == ["stem", "body", "head"]
    assert "uint8" in kernels["stem"]
    assert "rescaled_rows" in kernels["head"]
    x = batches[0]
    assert (library(x) - program.module()(x)).abs().max() < 1e-3
    assert (library(x) - model(x)).abs().max() < 0.05 * model(x).abs().max()


class Tied(nn.Module):
    """Two layers that read the same rows, two that share a weight, which an embedding reads too."""

    def __init__(self):
        super().__init__()
        self.table, self.query, self.key = (
            nn.Embedding(32, 16),
            nn.Linear(16, 16),
            nn.Linear(16, 16),
        )
        self.first, self.second = nn.Linear(16, 32, bias=False), nn.Linear(16, 32, bias=False)
        self.first.weight = self.second.weight = self.table.weight

    def forward(self, tokens):
        x = self.table(tokens)
        y = self.query(x) + self.key(x)
        return self.first(y), self.second(torch.tanh(y))


def test_rows_are_rounded_once_and_weights_may_be_shared():
    torch.manual_seed(0)
    model, tokens = Tied().eval(), torch.randint(0, 32, (1, 6))
    program = ts.quantize(model, [tokens], activations="dynamic", ignore=["key"])
    library = compiled(program)
    for got, expected in zip(library(tokens), program.module()(tokens), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    for got, exact in zip(library(tokens), model(tokens), strict=True):
        assert (got - exact).abs().max() < 0.05 * exact.abs().max()
    assert sum(k.function.startswith("quantize_rows") for k in library.kernels) == 3
    kernels = {k.layer: k.function for k in library.kernels if k.layer}
    assert "rescaled_rows" in kernels["query"]
    assert "rescaled" not in kernels["key"]


@pytest.mark.slow
def test_networks_trained_in_bytes():
    prepare = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e")
    pt2e = pytest.importorskip("torchao.quantization.pt2e")
    x86 = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    torch.manual_seed(0)
    x, quantizer = torch.randn(4, 3, 12, 12), x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_qat=True))
    trained = prepare.prepare_qat_pt2e(
        torch.export.export(Residual().train(), (x,), strict=True).module(), quantizer
    )
    optimiser = torch.optim.SGD(trained.parameters(), 0.01)
    for _ in range(3):
        optimiser.zero_grad()
        trained(x).square().mean().backward()
        optimiser.step()
    converted = prepare.convert_pt2e(trained)
    pt2e.move_exported_model_to_eval(converted)
    library = compiled(torch.export.export(converted, (x,)))
    expected = converted(x)
    assert (library(x) - expected).abs().max() < 0.02 * expected.abs().max()
    assert sum("uint8" in k.function for k in library.kernels if k.layer) == 3


def test_what_cannot_be_quantized_is_refused(model):
    with pytest.raises(ts.InputError, match="got no batch"):
        ts.quantize(model, [])
    with pytest.raises(ts.InputError, match="no module 'neck'"):
        ts.quantize(model, [torch.randn(1, 3, 16, 16)], ignore=["neck"])
    with pytest.raises(ts.InputError, match="static or dynamic"):
        ts.quantize(model, [torch.randn(1, 3, 16, 16)], activations="rows")
    with pytest.raises(ts.InputError, match="cannot be traced"):
        ts.quantize(model, [torch.randn(1, 4, 16, 16)])


@pytest.mark.grid
@pytest.mark.parametrize("activations", ["static", "dynamic"])
def test_a_model_of_hugging_face_goes_in_as_it_is(activations):
    transformers = package("transformers")
    config = transformers.BertConfig(
        hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128
    )
    torch.manual_seed(0)
    model = transformers.BertModel(config).eval()
    batches = [
        {"input_ids": torch.randint(0, 100, (1, 8)), "attention_mask": torch.ones(1, 8).long()}
        for _ in range(2)
    ]
    library = compiled(ts.quantize(model, batches, activations=activations))
    found, wanted = library(**batches[0]), model(**batches[0])
    assert type(found) is type(wanted)
    scale = wanted.last_hidden_state.abs().max()
    assert (found.last_hidden_state - wanted.last_hidden_state).abs().max() < 0.05 * scale
    assert sum("int8" in k.function for k in library.kernels if k.layer) >= 6


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ((({0: Dim("b")},),), "of 'x': has 1 entries for a tensor of 4 axes"),
        ({0: Dim("b")}, "'0' is no argument .*put the mapping of axes into a tuple"),
        (({0: Dim("b")}, None), "has 2 entries for 1 arguments"),
        (({0: Dim("b", min=3, max=4)},), "says 3 to 4 for axis 0, which is 2"),
    ],
)
def test_open_extents_are_checked_as_compile_does(model, shapes, told):
    with pytest.raises(ts.InputError, match=told):
        ts.quantize(model, [torch.randn(2, 3, 16, 16)], dynamic_shapes=shapes)


def test_batches_of_another_form_are_told(model):
    first = torch.randn(2, 3, 16, 16)
    with pytest.raises(ts.InputError, match="does not run on a batch as on the first one"):
        ts.quantize(model, [first, first[:, :2]])


def test_batches_that_are_no_arguments_are_refused(model):
    with pytest.raises(ts.errors.InputError, match=r"of type int"):
        ts.quantize(model, [3])
