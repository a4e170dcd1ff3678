"""A pruned file is the file of the pruned module: same masks, same report, nothing else changed."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import tvm_sparse as ts
from tests.exported import exported
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.errors import InputError

METHODS = [
    ts.prune.BalancedPruning(0.75),
    ts.prune.BalancedPruning(0.5, share=2),
    ts.prune.BalancedPruning(0.5, bank=4, order="ihw"),
    ts.prune.PatternPruning(ts.prune.functions.Block(16, 1), 0.5),
    ts.prune.JointPruning(0.5, criterion="magnitude"),
    ts.prune.UnstructuredPruning(0.6),
    ts.prune.UnstructuredPruning(0.6, "global"),
    ts.prune.BalancedPruning(0.7, rounding="reach"),
]


class Mixed(nn.Module):
    """Convolutions, linear layers on rows and on sequences, both recurrent cells."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3, padding=1, stride=2)
        self.depthwise = nn.Conv2d(32, 32, 3, groups=32)
        self.lstm = nn.LSTM(32, 24, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(48, 16)
        self.proj = nn.Linear(16, 32, bias=False)
        self.head = nn.Linear(32, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.depthwise(torch.relu(self.conv(x))))
        x, _ = self.lstm(x.flatten(2).transpose(1, 2))
        x, _ = self.gru(x)
        return self.head(torch.relu(self.proj(x)).mean(1))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    torch.manual_seed(0)
    model, x = Mixed().eval(), torch.randn(4, 16, 8, 8)
    folder = tmp_path_factory.mktemp("mixed")
    exported(model, x, folder / "old.onnx", old=True)
    exported(model, x, folder / "new.onnx", old=False)
    exported(model, x, folder / "unfolded.onnx", old=True, do_constant_folding=False)
    return model, x, folder


def pairs(pruner, reference):
    """Yield name, own mask and the module's, matched by the values of the weights."""
    own = {layer.key: (layer, pruner.masks[layer.key]) for layer in pruner.selection}
    for theirs in reference.selection:
        keys = [
            key
            for key, (layer, _) in own.items()
            if layer.shape == theirs.shape and torch.equal(original(layer), original(theirs))
        ]
        assert len(keys) == 1, theirs.key
        yield theirs.key, own.pop(keys[0])[1], reference.masks[theirs.key]
    assert not own


def original(layer):
    return ts.prune.masks.original_parameter(layer.module, layer.parameter)


@pytest.mark.grid
@pytest.mark.parametrize("file", ["old.onnx", "new.onnx", "unfolded.onnx"])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.describe())
def test_masks_are_those_of_the_module(mixed, method, file):
    model, _, folder = mixed
    reference = ts.prune.prune(ts.prune.copies.copied(model), method)
    pruner = ts.prune.onnx(folder / file, method)
    found = list(pairs(pruner, reference))
    assert len(found) == 9
    for key, own, theirs in found:
        assert torch.equal(own, theirs), key
    assert pruner.report.sparsity == pytest.approx(reference.report.sparsity)
    own, theirs = (sorted(r.pattern for r in p.report.layers) for p in (pruner, reference))
    assert own == theirs
    skipped = [why for why in pruner.report.skipped.values() if "depthwise" in why]
    assert len(skipped) == 1


@pytest.mark.parametrize("file", ["old.onnx", "new.onnx", "unfolded.onnx"])
def test_the_file_computes_what_the_pruned_module_does(mixed, file, tmp_path):
    model, x, folder = mixed
    method = ts.prune.BalancedPruning(0.75)
    reference = ts.prune.prune(ts.prune.copies.copied(model), method).squash_mask()
    ts.prune.onnx(folder / file, method, output=tmp_path / "pruned.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "pruned.onnx")
    (found,) = session.run(None, {"x": x.numpy()})
    np.testing.assert_allclose(found, reference(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def stripped(path):
    """Return the model in ``path`` without the values of its tensors."""
    proto = onnx.load(path)
    tensors = [*proto.graph.initializer]
    tensors += [a.t for n in proto.graph.node for a in n.attribute if a.HasField("t")]
    for tensor in tensors:
        for field in ("raw_data", "float_data"):
            tensor.ClearField(field)
    return proto.SerializeToString()


def test_nothing_but_zeros_changes(mixed, tmp_path):
    _, _, folder = mixed
    ts.prune.onnx(folder / "old.onnx", METHODS[0], output=tmp_path / "p.onnx")
    assert stripped(tmp_path / "p.onnx") == stripped(folder / "old.onnx")
    before, after = (
        {t.name: numpy_helper.to_array(t) for t in onnx.load(p).graph.initializer}
        for p in (folder / "old.onnx", tmp_path / "p.onnx")
    )
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    assert len(changed) == 7  # both directions of the LSTM are in one tensor
    for name in changed:
        assert np.array_equal(after[name], np.where(after[name] == 0, 0, before[name]))


@pytest.mark.parametrize("file", ["old.onnx", "new.onnx"])
def test_one_shot_is_that_of_the_module(mixed, file):
    model, _, folder = mixed
    torch.manual_seed(1)
    batches = [torch.randn(4, 16, 8, 8) for _ in range(3)]
    method = ts.prune.BalancedPruning(0.5)
    reference = ts.prune.one_shot(ts.prune.copies.copied(model), batches, method, swaps=0)
    arrays = [batch.numpy() for batch in batches]
    pruner = ts.prune.onnx(folder / file, method, calibration=arrays, swaps=0)
    assert len(pruner.report.layers) == len(reference.report.layers) == 9
    losses = {r.shape: [] for r in reference.report.layers}
    for report in (pruner.report, reference.report):
        for r in report.layers:
            losses[r.shape].append(r.note)
    for shape, notes in losses.items():
        half = len(notes) // 2
        assert sorted(notes[:half]) == sorted(notes[half:]), shape
    found, wanted = pruner.model(batches[0]), reference.model(batches[0])
    torch.testing.assert_close(found["y"], wanted, rtol=1e-2, atol=1e-3)


WEIGHT = np.random.default_rng(0).standard_normal((32, 48)).astype(np.float32)


def product(transposed=False, constant=False, extra=()):
    """Return a model with ``x @ w`` or a Gemm with ``transB``."""
    weight = WEIGHT.T.copy() if transposed else WEIGHT
    first = node("Gemm", "x w", "h", transB=1) if transposed else node("MatMul", "x w", "h")
    nodes = [first, node("Relu", "h", "y"), *extra]
    weights = {"w": weight}
    if constant:
        value = numpy_helper.from_array(weight, "value")
        nodes = [onnx.helper.make_node("Constant", [], ["w"], "held", value=value), *nodes]
        weights = {}
    return graph(nodes, {"x": (4, 32)}, ["y"], weights)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_weights_stay_where_they_are(transposed, constant, tmp_path):
    model = product(transposed, constant)
    pruner = ts.prune.onnx(model, METHODS[0], output=tmp_path / "p.onnx")
    linear = nn.Linear(32, 48, bias=False)
    linear.weight.data = torch.from_numpy(WEIGHT.T.copy())
    expected = ts.prune.prune(linear, METHODS[0]).masks["weight"]
    (mask,) = pruner.masks.values()
    assert torch.equal(mask, expected)
    after = onnx.load(tmp_path / "p.onnx")
    assert len(after.graph.initializer) == (not constant)
    tensor = after.graph.node[0].attribute[0].t if constant else after.graph.initializer[0]
    kept = expected.numpy() if transposed else expected.numpy().T
    stored = WEIGHT.T if transposed else WEIGHT
    assert np.array_equal(numpy_helper.to_array(tensor), np.where(kept, stored, 0))


def test_weights_in_files_stay_in_files(tmp_path):
    model = graph(
        [node("MatMul", "x w", "h"), node("Add", "h b", "y")],
        {"x": (4, 32)},
        ["y"],
        {"w": WEIGHT, "b": np.arange(48, dtype=np.float32)},
    )
    onnx.save(
        model,
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="m.bin",
        size_threshold=0,
    )
    before = (tmp_path / "m.bin").read_bytes()
    (tmp_path / "out").mkdir()
    x = np.random.default_rng(1).standard_normal((8, 32)).astype(np.float32)
    place = tmp_path / "out" / "p.onnx"
    pruner = ts.prune.onnx(tmp_path / "m.onnx", METHODS[0], calibration=[x], output=place)
    assert pruner.report.sparsity == 0.75
    assert (tmp_path / "m.bin").read_bytes() == before
    assert sorted(p.name for p in place.parent.iterdir()) == ["p.onnx", "p.onnx.data"]
    assert len(place.read_bytes()) < 1000
    held = {t.name: numpy_helper.to_array(t) for t in onnx.load(place).graph.initializer}
    assert (held["w"] == 0).mean() == 0.75
    assert np.array_equal(held["b"], np.arange(48))
    with pytest.raises(InputError, match="its weights come from"):
        ts.prune.onnx(tmp_path / "m.onnx", METHODS[0], output=tmp_path / "m.onnx")
    assert (tmp_path / "m.bin").read_bytes() == before


def test_a_shared_weight_is_pruned_once_and_one_that_is_used_elsewhere_is_left(tmp_path):
    square = WEIGHT[:, :32]
    shared = graph(
        [node("MatMul", "x w", "h"), node("Relu", "h", "r"), node("MatMul", "r w", "y")],
        {"x": (4, 32)},
        ["y"],
        {"w": square},
    )
    x = np.random.default_rng(1).standard_normal((12, 32)).astype(np.float32)
    pruner = ts.prune.onnx(shared, METHODS[0], calibration=[x])
    assert [r.name for r in pruner.report.layers] == ["w"]
    turned = graph(
        [node("MatMul", "x w", "h"), node("Gemm", "h w", "y", transB=1)],
        {"x": (4, 32)},
        ["y"],
        {"w": WEIGHT},
    )
    with pytest.raises(InputError, match=r"w: its weight is read as it is and transposed"):
        ts.prune.onnx(turned, METHODS[0])
    tied = graph(
        [
            node("Gather", "e i", "x"),
            node("Transpose", "e", "t"),
            node("MatMul", "x v", "h"),
            node("MatMul", "h t", "y"),
        ],
        {"i": (4,)},
        ["y"],
        {"e": WEIGHT, "v": WEIGHT.T @ WEIGHT},
    )
    tied.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    pruner = ts.prune.onnx(tied, METHODS[0])
    assert [r.name for r in pruner.report.layers] == ["v"]
    assert "is read by" in pruner.report.skipped["e"]
    assert "Gather" in pruner.report.skipped["e"]


def test_layers_are_named_by_weight_node_or_module(mixed):
    _, _, folder = mixed
    file = folder / "old.onnx"
    by_module = ts.prune.onnx(file, METHODS[0], include=["proj", "head.weight"])
    assert len(by_module.report.layers) == 2
    by_node = ts.prune.onnx(file, METHODS[0], include=["/proj/MatMul"])
    assert [r.shape for r in by_node.report.layers] == [(32, 16)]
    recipe = ts.prune.LayerPruning(
        {"proj.weight": METHODS[0], "head": ts.prune.UnstructuredPruning(0.5)}
    )
    assert [r.sparsity for r in ts.prune.onnx(file, recipe).report.layers] == [0.75, 0.5]
    with pytest.raises(InputError, match="did you mean"):
        ts.prune.onnx(file, METHODS[0], include=["haed"])
    with pytest.raises(InputError, match=r"names 'head.weight' a second time"):
        twice = ts.prune.LayerPruning({"head": METHODS[0], "head.weight": METHODS[0]})
        ts.prune.onnx(file, twice)


X = np.ones((4, 32), np.float32)


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        ([], "no batch"),
        ([{"z": X}], "no input 'z'"),
        ([{}], "nothing for the input 'x'"),
        ([[X, X]], "a batch has 2 arrays"),
        ([X.astype(np.float64)], "is float64"),
        ([X[0]], r"has shape \[32\]"),
        ([X[:, :8]], r"has shape \[4, 8\]"),
        ([X[:3]], r"has shape \[3, 32\]"),
        ([X[:0]], r"has shape \[0, 32\]"),
        ([np.full((4, 32), np.nan, np.float32)], "NaN"),
    ],
)
def test_calibration_data_that_do_not_fit_are_refused(calibration, message):
    with pytest.raises(InputError, match=message):
        ts.prune.onnx(product(), METHODS[0], calibration=calibration)


def test_batches_of_a_fixed_size_are_cut_from_larger_ones():
    x = np.random.default_rng(1).standard_normal((16, 32)).astype(np.float32)
    whole = ts.prune.onnx(product(), METHODS[0], calibration=[x])
    cut = ts.prune.onnx(product(), METHODS[0], calibration=[*x.reshape(4, 4, 32)])
    for a, b in zip(whole.masks.values(), cut.masks.values(), strict=True):
        assert torch.equal(a, b)


def test_what_a_file_cannot_give_is_refused(tmp_path):
    x = tmp_path / "x.onnx"
    with pytest.raises(InputError, match="no such file"):
        ts.prune.onnx(x, METHODS[0])
    x.write_bytes(b"what")
    with pytest.raises(InputError, match="is no sound ONNX model"):
        ts.prune.onnx(x, METHODS[0])
    with pytest.raises(InputError, match="is a dict"):
        ts.prune.onnx({}, METHODS[0])
    for method in (ts.prune.FilterPruning(0.5), ts.prune.DEPrune(0.5)):
        with pytest.raises(InputError, match="follows channels through a PyTorch module"):
            ts.prune.onnx(product(), method)
    with pytest.raises(InputError, match="ranks by gradients"):
        ts.prune.onnx(product(), ts.prune.JointPruning(0.5))
    with pytest.raises(InputError, match="only used with calibration data"):
        ts.prune.onnx(product(), METHODS[0], sparsities={"w": 0.5})
    with pytest.raises(InputError, match="no layer whose weight the file has"):
        ts.prune.onnx(graph([node("Relu", "x", "y")], {"x": (2,)}, ["y"], {}), METHODS[0])
    steps = ts.prune.Recipe(METHODS[0], ts.prune.Levels([0.5, 0.75]))
    with pytest.raises(InputError, match="several steps"):
        ts.prune.onnx(product(), steps)


def test_sparsities_are_those_of_layers():
    x = np.random.default_rng(1).standard_normal((16, 32)).astype(np.float32)
    pruner = ts.prune.onnx(product(), METHODS[0], calibration=[x], sparsities={"w": 0.5})
    assert pruner.report.sparsity == 0.5
