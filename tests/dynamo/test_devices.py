"""Graphs on a GPU: traced with tensors that have no values, compiled on the host, then at home."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import fx, nn
from torch._subclasses import FakeTensorMode

import tvm_sparse as ts
from tests.dynamo.test_backend import FAST, Mixed
from tvm_sparse.dynamo import devices, programs
from tvm_sparse.dynamo.backend import backend
from tvm_sparse.dynamo.devices import HOST, home_of, move_from_host, on_host, refusal
from tvm_sparse.dynamo.options import Options
from tvm_sparse.dynamo.parts import Part

GPU, OTHER_GPU = torch.device("cuda:0"), torch.device("cuda:1")
OPTIONS = {**FAST, "artifacts": False}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Placed(nn.Module):
    """Makes tensors on the device of its input, in all the ways that Dynamo writes down."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x):
        y = self.norm(self.layer(x)) + torch.arange(8, device=x.device)
        y = y + torch.ones(8, device=str(x.device)) + torch.zeros(8).to(x.device)
        return y.to("cpu").to(x.device) * torch.tensor(0.5), x.new_full((3,), 2)


def on(device, model):
    """Put tensors without values on ``device`` in the places of those of ``model``."""
    for part in model.modules():
        for name, value in part._parameters.items():
            new = torch.empty(value.shape, device=device)
            part._parameters[name] = nn.Parameter(new, requires_grad=False)
        for name, value in part._buffers.items():
            part._buffers[name] = torch.empty(value.shape, dtype=value.dtype, device=device)
    return model


def traced(model, device, *shape):
    """Return what the backend makes of ``model`` on ``device``, which need not be there."""
    made = []

    def keep(graph, inputs):
        made.append(backend(graph, inputs, options=OPTIONS))
        return graph.forward

    with FakeTensorMode(), torch.no_grad():
        torch.compile(on(device, model), backend=keep)(torch.empty(shape, device=device))
    return made[0]


def test_a_graph_on_a_gpu_is_compiled_on_the_host():
    torch.manual_seed(0)
    model, x = Placed().eval(), torch.randn(2, 8)
    nn.init.uniform_(model.norm.running_var, 0.5, 2)
    with torch.no_grad():
        wanted = model(x)
    values = {tuple(name.split(".")): v for name, v in model.state_dict().items()}
    graph = traced(model, GPU, 2, 8)
    assert graph.home == GPU and graph.options.target == "cuda" and not graph.refused
    # The rest is the same on both devices: here the host is the graph's home, with real values.
    graph.home, graph.options = HOST, replace(graph.options, target="cpu")
    graph.owners.clear()
    names = [node.name for node in graph.graph.graph.find_nodes(op="placeholder")]
    args = [
        next((v for (layer, n), v in values.items() if layer in name and f"_{n}_" in name), x)
        for name in names
    ]
    with torch.no_grad():
        found = graph(*args)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    (group,) = graph.compiled.values()
    assert group[0].runner.parts and not group[0].runner.eager


@pytest.mark.filterwarnings("ignore:CUDA is not available:UserWarning")
def test_autocast_on_a_gpu_is_left_to_pytorch():
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return self.layer(x)

    with pytest.warns(UserWarning, match=r"it has autocast on 'cuda' .*model.half\(\)"):
        traced(Cast().eval(), GPU, 2, 8)


def test_autocast_around_a_call_on_a_gpu_is_left_to_pytorch():
    torch.set_autocast_enabled("cuda", True)  # as torch.autocast does where there is a GPU
    try:
        with pytest.warns(UserWarning, match=r"it has autocast on 'cuda' .*model.half\(\)"):
            traced(nn.Linear(8, 8).eval(), GPU, 2, 8)
    finally:
        torch.set_autocast_enabled("cuda", False)


def graph_of(*results):
    graph = fx.Graph()
    nodes = [graph.placeholder(f"x{i}") for i in range(len(results))]
    for node, result in zip(nodes, results, strict=True):
        node.meta["example_value"] = result
    graph.output(tuple(nodes))
    return graph


@pytest.mark.parametrize(
    ("places", "result", "target", "reason"),
    [
        (["cpu"], "cpu", None, ""),
        (["cuda:0", "cuda:0"], "cuda:0", None, ""),
        (["cuda:1"], "cuda:1", None, "'cuda:1', and programs run on 'cuda:0'"),
        (["meta"], "meta", None, "'meta', and programs run on 'cpu' or 'cuda'"),
        (["xpu"], "xpu", None, "'xpu:0', and programs run on 'cpu' or 'cuda'"),
        (["cuda:0", "cpu"], "cuda:0", None, "on 'cuda:0' and on 'cpu'"),
        (["cuda:0", "cuda:1"], "cuda:0", None, "on 'cuda:0' and on 'cuda:1'"),
        (["cuda:0"], "cpu", None, "on 'cuda:0' and on 'cpu'"),
        (["cpu"], "cuda:0", None, "on 'cpu' and on 'cuda:0'"),
        (["cuda:0"], "cuda:0", "cpu", "on 'cuda:0', and the option 'target' is 'cpu'"),
    ],
)
def test_graphs_that_cannot_run_where_they_lie_are_refused_by_name(places, result, target, reason):
    with FakeTensorMode():
        tensors = [torch.empty(2, device=place) for place in places]
        graph = graph_of(torch.empty(2, device=result))
        found = refusal(graph, tensors, home_of(tensors), target)
    assert found.endswith(reason) if reason else not found


def test_numbers_on_the_host_go_along():
    with FakeTensorMode():
        tensors = [torch.empty((), device="cpu"), torch.empty(2, device="cuda")]
        assert home_of(tensors) == GPU
        assert not refusal(graph_of(tensors[1]), tensors, GPU, None)
        assert home_of(tensors[:1]) == home_of([]) == HOST
        assert "on 'cpu'" in refusal(graph_of(tensors[0]), tensors, GPU, None)


def test_a_model_without_values_is_left_to_pytorch():
    model = nn.Linear(4, 4, device="meta").eval()
    fast = torch.compile(model, backend="tvm_sparse", options=OPTIONS)
    with torch.no_grad(), pytest.warns(UserWarning, match="its tensors are on 'meta'"):
        assert fast(torch.empty(2, 4, device="meta")).is_meta
    assert "programs run on" in str(ts.partitions(fast))


def test_what_is_on_the_host_is_not_copied():
    weight, number = nn.Parameter(torch.ones(3)), 3
    assert on_host(weight) is weight and on_host(number) is number
    with FakeTensorMode():
        moved = on_host(nn.Parameter(torch.empty(3, device="cuda")))
    assert isinstance(moved, nn.Parameter) and moved.device == HOST


@pytest.fixture
def parts(monkeypatch):
    """Parts that are not compiled, and tell what they are called with."""
    called = []

    class Library:
        def __init__(self, program):
            self.module = program.module(check_guards=False)

        def run(self, *tensors):
            called.extend(tensor.device.type for tensor in tensors)
            return tuple(value.to(tensors[0].device) for value in self.results(tensors))

        def results(self, tensors):
            found = self.module(*(torch.zeros(t.shape, dtype=t.dtype) for t in tensors))
            return found if isinstance(found, tuple) else (found,)

    def compiled(program, options):
        return Part(Library(program), False, (), SimpleNamespace)

    monkeypatch.setattr(programs, "compiled", compiled)
    return called


class Between(Mixed):
    """Random numbers and a weight outside of what is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(16))

    def forward(self, x):
        x = torch.relu(self.before(x)) + 1
        x = x + torch.rand(16, device="cpu") + torch.rand_like(x) * self.scale
        return torch.tanh(self.after(x))


def split(model, home, x):
    """Return ``model`` in parts whose rest runs on ``home``."""
    program = programs.exported(model, [x])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = programs.runner(program, Options(**OPTIONS), home, whole=False)
    assert len(runner.parts) > 1 and runner.eager
    return runner


def test_what_pytorch_runs_of_a_graph_runs_at_its_home(parts, monkeypatch):
    monkeypatch.setattr(programs, "_shares", lambda graph: True)  # so that it is cut
    home, x = torch.device("meta"), torch.randn(3, 8)
    found = split(Between().eval(), home, x).run(x.to(home))
    assert found.device == home
    assert parts == ["meta"] * len(parts) and parts


def test_operators_of_the_host_alone_are_refused(monkeypatch):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.aten.relu.default, (x,)))
    monkeypatch.setattr(devices, "_exists", lambda function, home: "relu" not in str(function))
    with pytest.raises(ts.UnsupportedError, match=r"'aten.relu.default' does not exist on 'meta'"):
        move_from_host(fx.GraphModule({}, graph), torch.device("meta"))


def test_which_operators_are_of_the_host_alone():
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    assert devices._exists(attention, HOST) and not devices._exists(attention, GPU)
    assert devices._exists(torch.ops.aten.add.Tensor, GPU)
    assert not devices._exists(torch.ops.higher_order.cond, GPU)
