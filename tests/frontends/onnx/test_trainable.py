"""An ONNX file as a module: it computes what the file says, learns, and is written back."""

from __future__ import annotations

import copy

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import tvm_sparse as ts
from tests.exported import exported
from tests.frontends.onnx.graphs import graph, node
from tests.pruning.onnx_models.test_function import Mixed
from tvm_sparse.errors import InputError
from tvm_sparse.pruning.distillation.losses import loss_of

EXPORTS = {
    "old": {"old": True},
    "new": {"old": False},
    "unfolded": {"old": True, "do_constant_folding": False},
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    torch.manual_seed(0)
    model, x = nn.Sequential(Mixed(), nn.LayerNorm(48), nn.Linear(48, 80)), torch.randn(4, 16, 8, 8)
    model.eval()
    folder = tmp_path_factory.mktemp("mixed")
    for name, options in EXPORTS.items():
        exported(model, x, folder / f"{name}.onnx", **options)
    return model, x, folder


def run(path, *inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, (x.numpy() for x in inputs), strict=True)))


def assert_saves(module, place, *inputs):
    """The module gives what the file gives that it writes."""
    module.save(place)
    with torch.no_grad():
        found = module(*inputs)
    for own, wanted in zip(found.values(), run(place, *inputs), strict=True):
        np.testing.assert_allclose(own.numpy(), wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", EXPORTS)
def test_computes_and_writes_what_it_learned(mixed, name, tmp_path):
    _, x, folder = mixed
    module = ts.OnnxModule(folder / f"{name}.onnx")
    assert_saves(module, tmp_path / "same.onnx", x)
    before = {key: parameter.detach().clone() for key, parameter in module.named_parameters()}
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.1)
    assert_saves(module, tmp_path / "other.onnx", x)
    again = ts.OnnxModule(tmp_path / "other.onnx")
    for key, parameter in again.named_parameters():
        assert not torch.equal(parameter, before[key])
        assert torch.equal(parameter, dict(module.named_parameters())[key])


@pytest.mark.parametrize("name", EXPORTS)
def test_every_weight_has_its_gradient(mixed, name):
    _, x, folder = mixed
    module = ts.OnnxModule(folder / f"{name}.onnx")

    def loss():
        return sum(y.square().sum() for y in module(x).values())

    loss().backward()
    for key, parameter in module.named_parameters():
        way = torch.randn(parameter.shape)
        way *= 0.02 * max(float(parameter.detach().norm()), 1.0) / way.norm()
        sides = []
        for sign in (1, -2):
            with torch.no_grad():
                parameter.add_(way, alpha=sign)
                sides.append(float(loss()))
        with torch.no_grad():
            parameter.add_(way)
        slope = float((parameter.grad * way).sum())
        assert (sides[0] - sides[1]) / 2 == pytest.approx(slope, rel=0.05, abs=2e-3), key


def test_layers_of_a_module_and_of_its_file_have_equal_gradients(mixed):
    model, x, folder = mixed
    model = copy.deepcopy(model)
    model(x).square().sum().backward()
    module = ts.OnnxModule(folder / "old.onnx")
    module(x)[next(iter(module(x)))].square().sum().backward()
    for name in ("0.conv", "0.depthwise", "0.proj", "0.head", "2"):
        (key,) = module.names_of(name)
        wanted = model.get_parameter(f"{name}.weight").grad
        found = module.get_submodule(key).weight.grad
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_distillation_brings_back_what_zeros_took(mixed, masked, tmp_path):
    _, x, folder = mixed
    torch.manual_seed(1)
    batches = [torch.randn(4, 16, 8, 8) for _ in range(16)]
    teacher = ts.OnnxModule(folder / "old.onnx")
    student = ts.OnnxModule(folder / "old.onnx")
    pruner = ts.prune.balanced(student, 0.75)
    if not masked:
        pruner.squash_mask()
    zeros = {key: layer.weight == 0 for key, layer in layers_of(student)}
    assert sum(int(z.sum()) for z in zeros.values()) > 5000

    def loss():
        with torch.no_grad():
            (a,), (b,) = student(x).values(), teacher(x).values()
        return float((a - b).square().mean() / b.square().mean())

    before = loss()
    kept = {key: layer.weight.detach().clone() for key, layer in layers_of(teacher)}
    losses = ts.prune.distil(student, teacher, batches, steps=48, rate=2e-3, precision="float32")
    assert losses[-1] < losses[0]
    assert loss() < 0.5 * before
    for key, layer in layers_of(student):
        assert (layer.weight[zeros[key]] == 0).all()
    for key, layer in layers_of(teacher):
        assert torch.equal(layer.weight, kept[key])
    assert_saves(student, tmp_path / "trained.onnx", x)
    written = ts.OnnxModule(tmp_path / "trained.onnx")
    for key, layer in layers_of(written):
        assert (layer.weight[zeros[key]] == 0).all()


def layers_of(module):
    return ((key, module.get_submodule(key)) for key in module.layers)


def test_values_and_layers_are_compared_by_their_names(mixed):
    _, x, folder = mixed
    student, teacher = (ts.OnnxModule(folder / "old.onnx") for _ in range(2))
    (value,) = [n.output[0] for n in student.document.proto.graph.node if n.op_type == "GRU"][:1]
    (layer,) = student.names_of("2")
    with torch.no_grad():
        for parameter in student.parameters():
            parameter.add_(0.1)
    for name in (value, layer):
        losses = ts.prune.distil(student, teacher, [x], steps=3, losses={name: 1.0})
        assert len(losses) == 3
        assert losses[0] > 0
    with pytest.raises(InputError, match="is no module of the network"):
        ts.prune.distil(student, teacher, [x], steps=1, losses={"no such": 1.0})


def test_layers_in_between_are_compared(mixed):
    _, x, folder = mixed
    student, teacher = (ts.OnnxModule(folder / "old.onnx") for _ in range(2))
    names = loss_of(student, {"blocks": 1.0}).names
    assert len(names) == 8
    assert all(name in student.layers for name in names)
    (wanted,) = student(x).values()
    with torch.no_grad():
        student.get_submodule(names[0]).weight.mul_(2)
    (found,) = ts.prune.distil(student, teacher, [x], 1, losses={"blocks": 1.0})
    assert found > 0.5
    assert student(x)["y"].shape == wanted.shape


def test_one_shot_reads_what_the_file_computes(mixed):
    _, x, folder = mixed
    method = ts.prune.BalancedPruning(0.5)
    found = []
    for kind in (ts.OnnxModule, ts.prune.OnnxNetwork):
        network = kind(folder / "old.onnx")
        ts.prune.one_shot(network, [x], method).squash_mask()
        found.append({key: layer.weight for key, layer in layers_of(network)})
    for key, weight in found[0].items():
        assert torch.equal(weight, found[1][key]), key


def test_a_run_goes_on_where_it_was_interrupted(mixed, tmp_path):
    _, x, folder = mixed

    def pruned():
        student = ts.OnnxModule(folder / "old.onnx")
        ts.prune.balanced(student, 0.75).squash_mask()
        return student

    teacher, whole, parts = ts.OnnxModule(folder / "old.onnx"), pruned(), pruned()
    wanted = ts.prune.distil(whole, teacher, [x], steps=6, precision="float32")

    def stop(step, _steps, _loss):
        if step == 3:
            raise KeyboardInterrupt

    given = {"steps": 6, "precision": "float32", "resume": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        ts.prune.distil(parts, teacher, [x], progress=stop, **given)
    assert ts.prune.distil(pruned(), teacher, [x], **given) == wanted


def test_a_copy_has_weights_of_its_own(mixed):
    _, x, folder = mixed
    module = ts.OnnxModule(folder / "old.onnx")
    other = copy.deepcopy(module)
    wanted = next(iter(module(x).values())).detach()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert torch.equal(next(iter(module(x).values())), wanted)
    assert not torch.equal(next(iter(other(x).values())), wanted)
    assert ts.prune.distil(other, module, [x], steps=2, losses={"blocks": 1.0})


def test_inputs_are_given_in_order_or_by_name(mixed):
    module = ts.OnnxModule(mixed[2] / "old.onnx")
    (name,) = module.document.inputs
    x = mixed[1]
    assert torch.equal(*(next(iter(y.values())) for y in (module(x), module(**{name: x.numpy()}))))
    for args, kwargs in (((), {}), ((x, x), {}), ((), {"other": x})):
        with pytest.raises(InputError, match="inputs of"):
            module(*args, **kwargs)


MORE = {"domain": "com.microsoft"}
BESIDE = {
    "batch norm": (node("BatchNormalization", "h s b m v", "y"), (8,), (8,), (8,), (8,)),
    "instance norm": (node("InstanceNormalization", "h s b", "y"), (8,), (8,)),
    "group norm": (node("GroupNormalization", "h s b", "y", num_groups=2), (8,), (8,)),
    "layer norm": (node("LayerNormalization", "h s b", "y"), (6,), (6,)),
    "transposed": (node("ConvTranspose", "h s b", "y"), (8, 3, 2, 2), (3,)),
    "slopes": (node("PRelu", "h s", "y"), (8, 1, 1)),
    "one slope": (node("PRelu", "h s", "y"), (1,)),
    "row": (node("Add", "h s", "y"), (6,)),
    "fused": (node("FusedConv", "h s b", "y", activation="Relu", **MORE), (8, 8, 1, 1), (8,)),
}


@pytest.mark.parametrize("name", BESIDE)
def test_all_that_is_trained_beside_layers_is_read_anew(name, tmp_path):
    last, *shapes = BESIDE[name]
    draw = np.random.default_rng(0)
    given = [n for n in last.input if n != "h"]
    weights = {
        n: draw.uniform(0.5, 1.5, shape).astype(np.float32)
        for n, shape in zip(given, shapes, strict=True)
    }
    weights["w"] = draw.standard_normal((8, 4, 1, 1)).astype(np.float32)
    nodes = [node("Conv", "x w", "h"), last]
    model = graph(nodes, {"x": [2, 4, 6, 6]}, ["y"], weights, domains={"com.microsoft": 1})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    onnx.save(model, tmp_path / "model.onnx")
    module, x = ts.OnnxModule(tmp_path / "model.onnx"), torch.randn(2, 4, 6, 6)
    assert_saves(module, tmp_path / "same.onnx", x)
    module(x)["y"].square().sum().backward()
    trained = {**dict(module.named_parameters())}
    fixed = {"batch norm": 2}.get(name, 0)
    assert len(trained) == len(weights) - fixed
    for key, parameter in trained.items():
        assert parameter.grad is not None, key
        with torch.no_grad():
            parameter.add_(torch.rand(parameter.shape))
        assert_saves(module, tmp_path / "other.onnx", x)


def test_weights_inside_of_a_branch_learn(tmp_path):
    weight = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
    tensor = numpy_helper.from_array(weight, "w")
    branches = [
        helper.make_graph(
            [node("MatMul", "x w", f"y{i}"), node(op, f"y{i}", f"z{i}")],
            f"b{i}",
            [],
            [helper.make_tensor_value_info(f"z{i}", TensorProto.FLOAT, [2, 3])],
            initializer=[tensor],
        )
        for i, op in enumerate(("Neg", "Exp"))
    ]
    chosen = node("Constant", "", "c", value=numpy_helper.from_array(np.array(True)))
    branch = node("If", "c", "y", then_branch=branches[0], else_branch=branches[1])
    model = graph([chosen, branch], {"x": [2, 4]}, ["y"])
    place = tmp_path / "branch.onnx"
    onnx.save(model, place)
    module = ts.OnnxModule(place)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    assert_saves(module, tmp_path / "other.onnx", torch.randn(2, 4))


def test_what_cannot_be_trained_is_refused(mixed, tmp_path):
    w = np.ones((4, 3), np.float32)
    nodes = [
        node("Cast", "x", "h", to=TensorProto.FLOAT16),
        node("MatMul", "h w", "z"),
        node("Cast", "z", "y", to=TensorProto.FLOAT),
    ]
    half = graph(nodes, {"x": [2, 4]}, ["y"], {"w": w.astype(np.float16)})
    onnx.save(half, tmp_path / "half.onnx")
    with pytest.raises(InputError, match="layer 'w' is float16"):
        ts.OnnxModule(tmp_path / "half.onnx")
    nodes = [node("MatMul", "x w", "z"), node("ArgMax", "z", "y")]
    classes = graph(nodes, {"x": [2, 4]}, ["y"], {"w": w})
    onnx.save(classes, tmp_path / "classes.onnx")
    student, teacher = (ts.OnnxModule(tmp_path / "classes.onnx") for _ in range(2))
    with pytest.raises(InputError, match="no output to compare"):
        ts.prune.distil(student, teacher, [torch.ones(2, 4)], 1, losses={"outputs": 1.0})
    assert ts.prune.distil(student, teacher, [torch.ones(2, 4)], 1, losses={"z": 1.0}) == [0.0]
    with pytest.raises(InputError, match="no such file"):
        ts.OnnxModule(tmp_path / "none.onnx")


def test_a_module_is_compiled_as_the_file_that_it_would_write(mixed):
    _, x, folder = mixed
    module = ts.OnnxModule(folder / "old.onnx")
    ts.prune.balanced(module, 0.75).squash_mask()
    with torch.no_grad():
        (wanted,) = module(x).values()
    config = ts.Config(measure=False, cache=False)
    for library in (ts.compile(module, x, config=config), ts.compile(module, config=config)):
        torch.testing.assert_close(library(x), wanted, rtol=1e-4, atol=1e-5)
        assert {d.chosen for d in library.decisions if d.layer == "0.conv"} == {"balanced"}
