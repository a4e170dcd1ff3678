"""Models through ``torch.compile(backend="tvm_sparse")``: right, and nothing silent."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.utils import prune

import tvm_sparse as ts
import tvm_sparse_runtime as runtime
from tvm_sparse.selection.decisions import DENSE
from tvm_sparse_runtime.session import Session

FAST = {"measure": False}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(16, 32), nn.BatchNorm1d(32)
        self.second = nn.Linear(32, 8)

    def forward(self, x, scale=1.0):
        return {"y": self.second(torch.relu(self.norm(self.first(x)))) * scale}


def network() -> nn.Module:
    torch.manual_seed(0)
    model = Network().eval()
    nn.init.uniform_(model.norm.running_var, 0.5, 2)
    model.first.weight.data *= torch.arange(16) % 4 == 0
    return model


def compiled(model, **options):
    return torch.compile(model, backend="tvm_sparse", options={**FAST, **options})


def assert_right(fast, model, *args):
    with torch.no_grad():
        torch.testing.assert_close(fast(*args), model(*args), rtol=1e-4, atol=1e-5)


def test_a_whole_graph_and_its_report(tmp_path):
    model, x = network(), torch.randn(4, 16)
    fast = compiled(model)
    assert str(ts.partitions(fast)) == "nothing was compiled yet: call the model"
    assert_right(fast, model, x)
    (graph,) = ts.partitions(fast).graphs
    assert graph.shapes == "float32[4, 16]" and not graph.eager and not graph.refused
    (part,) = graph.parts
    assert [d["layer"] for d in part.decisions] == ["first", "second"]
    assert part.decisions[0]["sparsity"] == 0.75
    deployed = runtime.load(part.export(tmp_path / "a"))
    with torch.no_grad():
        torch.testing.assert_close(deployed(x)[0], model(x)["y"], rtol=1e-4, atol=1e-5)
    with pytest.raises(ts.ArtifactError, match="is there already"):
        part.export(tmp_path / "a")


def test_a_second_graph_comes_from_the_cache():
    model, x = network(), torch.randn(3, 16)
    assert_right(compiled(model), model, x)
    torch._dynamo.reset()
    same, other = network(), network()
    other.second.weight.data[0, 0] += 1
    for again, cached in ((same, True), (other, False)):
        fast = compiled(again)
        assert_right(fast, again, x)
        assert [part.cached for part in ts.partitions(fast).parts] == [cached]
    torch._dynamo.reset()
    third = network()
    fast = compiled(third, artifacts=False, ignore=("first",))
    assert_right(fast, third, x)
    (part,) = ts.partitions(fast).parts
    assert not part.cached
    assert part.decisions[0]["chosen"] == "dense"


@pytest.mark.grid
@pytest.mark.parametrize("check", ["versions", "values"])
def test_changed_weights_are_noticed(check):
    model, x = network(), torch.randn(4, 16)
    fast = compiled(model, check=check, artifacts=False)
    assert_right(fast, model, x)
    with torch.no_grad():
        model.second.weight.mul_(2)
    assert_right(fast, model, x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x)["y"].sum().backward()
    optimizer.step()
    assert_right(fast, model, x)
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    assert_right(fast, model, x)
    model.second.weight.data = torch.randn(8, 32)
    assert_right(fast, model, x)
    if check == "values":
        model.second.weight.data.mul_(3)
        assert_right(fast, model, x)


@pytest.mark.grid
@pytest.mark.parametrize("way", ["ts.prune", "torch.nn.utils.prune"])
def test_masks_that_are_attached_make_layers_sparse_and_may_change(way):
    torch.manual_seed(0)
    model, x = (
        nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()).eval(),
        torch.randn(1, 16, 6, 6),
    )
    if way == "ts.prune":
        ts.prune.balanced(model, 0.875)
        mask = model[0].parametrizations.weight[0].mask
    else:
        prune.l1_unstructured(model[0], "weight", 0.875)
        mask = model[0].weight_mask
    fast = compiled(model, artifacts=False)
    assert_right(fast, model, x)
    (graph,) = ts.partitions(fast).graphs
    (decision,) = graph.parts[0].decisions
    assert decision["layer"] == "0" and decision["sparsity"] == pytest.approx(0.875)
    assert decision["chosen"] not in DENSE
    with torch.no_grad():
        mask[:16] = False
        assert_right(fast, model, x)
        parameters = dict(model.named_parameters())
        weight = next(p for p in parameters.values() if p.dim() == 4)
        weight.mul_(2)
        assert_right(fast, model, x)


def test_changed_weights_without_versions_are_noticed():
    with torch.inference_mode():
        model, x = network(), torch.randn(4, 16)
        fast = compiled(model, artifacts=False)
        for _ in range(2):
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
            model.second.weight.mul_(2)
    assert len(ts.partitions(fast).graphs) == 2


def test_beyond_the_limit_pytorch_runs_the_graph():
    model, x = network(), torch.randn(4, 16)
    fast = compiled(model, limit=1, artifacts=False)
    assert_right(fast, model, x)
    with torch.no_grad():
        model.second.bias.add_(1)
    with pytest.warns(UserWarning, match=r"compiled 1 times \(option 'limit'\)"):
        assert_right(fast, model, x)
    assert_right(fast, model, x)
    assert "option 'limit'" in ts.partitions(fast).graphs[-1].refused


def test_any_batch():
    model, fast = network(), None
    fast = compiled(model, artifacts=False)
    for batch in (4, 7, 5, 9):
        assert_right(fast, model, torch.randn(batch, 16))
    shapes = [graph.shapes for graph in ts.partitions(fast).graphs]
    assert shapes == ["float32[4, 16]", "float32[7, 16]"]


def test_numbers_that_dynamo_passes_are_constants():
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.fc, self.factor = nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3), 0.5

        def forward(self, x):
            return self.fc(self.norm(x)) * self.factor

    torch.manual_seed(0)
    model = Scaled().eval()
    fast = torch.compile(
        model, backend="tvm_sparse", dynamic=True, options={**FAST, "artifacts": False}
    )
    for factor in (0.5, 0.25, 0.5):
        model.factor = factor
        assert_right(fast, model, torch.randn(2, 3, 8, 8))
    graphs = ts.partitions(fast).graphs
    assert len(graphs) == 2
    assert not any(graph.refused or graph.eager for graph in graphs)


def test_gradients_are_left_to_pytorch():
    model, x = network(), torch.randn(4, 16)
    fast = compiled(model)
    with pytest.warns(UserWarning, match="gradients are on") as told:
        for _ in range(2):
            fast(x)["y"].sum().backward()
    assert len(told) == 1
    assert model.first.weight.grad is not None
    assert "gradients are on" in str(ts.partitions(fast))


class Mixed(nn.Module):
    """Random numbers, which no library repeats, between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        x = torch.relu(self.before(x)) + 1
        x = x + 0.0 * torch.rand_like(x)
        return torch.tanh(self.after(x))


def test_what_is_not_supported_splits_the_graph_and_is_listed():
    torch.manual_seed(0)
    model, x = Mixed().eval(), torch.randn(4, 8)
    fast = compiled(model)
    with pytest.warns(UserWarning, match=r"leaves operators to PyTorch \(torch.rand_like"):
        assert_right(fast, model, x)
    (graph,) = ts.partitions(fast).graphs
    assert [d["layer"] for part in graph.parts for d in part.decisions] == ["before", "after"]
    assert [e.operator for e in graph.eager] == ["torch.rand_like"]
    assert "draws random numbers" in graph.eager[0].reason


def test_what_writes_to_arguments_and_buffers_is_left_to_pytorch():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x, out):
            y = torch.relu(self.fc(x)) * 2
            self.seen += y.sum(0)
            out.copy_(y)
            return y + self.seen

    torch.manual_seed(0)
    model, x = Counting(), torch.randn(2, 4)
    first, second = torch.zeros(2, 4), torch.zeros(2, 4)
    fast = compiled(model, artifacts=False)
    with torch.no_grad(), pytest.warns(UserWarning, match="writes to "):
        results = [fast(x, first) for _ in range(3)]
        seen = model.seen.clone()
        model.seen.zero_()
        expected = [model(x, second) for _ in range(3)]
    torch.testing.assert_close(results, expected)
    torch.testing.assert_close((seen, first), (model.seen, second))
    (graph,) = ts.partitions(fast).graphs
    assert not graph.parts


def test_writes_within_a_graph_are_compiled():
    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            y = self.fc(x) + 1
            y[:, 0] = 0
            y.mul_(2)
            return torch.relu(y)

    model, x = Inside().eval(), torch.randn(3, 4)
    fast = compiled(model, artifacts=False)
    assert_right(fast, model, x)
    assert len(ts.partitions(fast).parts) == 1


def test_two_models_of_one_class_do_not_take_turns_compiling():
    one, two, x = network(), network(), torch.randn(4, 16)
    two.second.weight.data.mul_(3)
    fast = [compiled(model, artifacts=False) for model in (one, two)]
    for _ in range(3):
        for made, model in zip(fast, (one, two), strict=True):
            assert_right(made, model, x)
    for made in fast:
        (graph,) = ts.partitions(made).graphs
        assert len(graph.parts) == 1


def test_results_share_memory_with_arguments_as_in_pytorch():
    class View(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return torch.relu(self.fc(x)) + 1, x[:, 1:].t()

    model, x = View().eval(), torch.randn(3, 4)
    fast = compiled(model, artifacts=False)
    with torch.no_grad(), pytest.warns(UserWarning, match="leaves operators"):
        _, view = fast(x)
    view[0, 0] = 5.0
    assert x[0, 1] == 5.0


def test_tensors_are_not_copied(monkeypatch):
    run, seen = Session.run, []

    def spied(session, *tensors):
        found = run(session, *tensors)
        seen.append((*tensors, *found))
        return found

    model, x = network(), torch.randn(4, 16)
    fast = compiled(model, artifacts=False)
    assert_right(fast, model, x)
    monkeypatch.setattr(Session, "run", spied)
    with torch.no_grad():
        y = fast(x)["y"]
    assert [tensor.data_ptr() for tensor in seen[0]] == [x.data_ptr(), y.data_ptr()]


def test_threads():
    model = network()
    fast = compiled(model)
    inputs = [torch.randn(4, 16) for _ in range(4)]
    assert_right(fast, model, inputs[0])
    found = {}

    def call(i):
        with torch.no_grad():
            found[i] = fast(inputs[i])["y"]

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with torch.no_grad():
        for i, x in enumerate(inputs):
            torch.testing.assert_close(found[i], model(x)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"meazure": False}, "there is no 'meazure'"),
        ({"limit": 0}, "option 'limit': is 0"),
        ({"target": "cuda:sm_90"}, "option 'target'"),
    ],
)
def test_options_that_are_not_valid(options, message):
    fast = torch.compile(network(), backend="tvm_sparse", options=options)
    with torch.no_grad(), pytest.raises(Exception, match=message):
        fast(torch.randn(2, 16))


def test_the_backend_is_found_by_name():
    script = "import torch; assert 'tvm_sparse' in torch._dynamo.list_backends()"
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)


def test_only_modules_are_explained():
    with pytest.raises(ts.InputError, match="is a function"):
        ts.partitions(lambda x: x)


def test_the_old_name_warns():
    with pytest.warns(FutureWarning, match=r"called tvm_sparse\.partitions now"):
        assert ts.explain().graphs == ts.partitions().graphs


def test_recurrent_layers_are_compiled_where_dynamo_is_told_to_trace_them():
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.GRU(8, 8, batch_first=True)

        def forward(self, x):
            return torch.relu(self.cells(x)[0][:, -1])

    torch.manual_seed(0)
    model, x = Last().eval(), torch.randn(2, 5, 8)
    fast = compiled(model, artifacts=False)
    assert_right(fast, model, x)
    assert "PyTorch runs GRU in layer 'cells'" in str(ts.partitions(fast))
    torch._dynamo.reset()
    with torch._dynamo.config.patch(allow_rnn=True):
        fast = compiled(model, artifacts=False)
        assert_right(fast, model, x)
        found = ts.partitions(fast)
    assert len(found.parts) == 1 and not found.left


def loop(x, layer):
    count = torch.zeros((), dtype=torch.int64)
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 0.5), (count, layer(x)))[1] + 1


def sums(x, layer):
    return scan(lambda total, row: (total + row, total * row), layer(x[0]), x)[1]


def rows(x, layer):
    return map_rows(lambda row: layer(row) * 2, x)


@pytest.mark.grid
@pytest.mark.filterwarnings("ignore:tvm_sparse leaves:UserWarning")
@pytest.mark.parametrize("function", [loop, sums, rows])
def test_control_flow_is_left_to_pytorch(function):
    layer, x = nn.Linear(16, 16).eval(), torch.randn(3, 16)
    with torch.no_grad():
        wanted = function(x, layer)
        found = torch.compile(lambda x: function(x, layer), backend="tvm_sparse", options=FAST)(x)
    torch.testing.assert_close(found, wanted)
