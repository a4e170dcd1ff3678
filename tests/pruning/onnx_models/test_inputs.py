"""What weights read is what reproduces the outputs of their nodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.pruning.compensation.calls import watch
from tvm_sparse.pruning.compensation.inputs import inputs_of
from tvm_sparse.pruning.layers import matrices_of
from tvm_sparse.pruning.onnx_models.network import OnnxNetwork

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def rows_of(network, **feeds):
    """Return what each layer reads, rows of its unfolded input, with its weight."""
    found = {}

    def see(module, call):
        name = next(n for n in network.layers if network.get_submodule(n) is module)
        (layer,) = matrices_of(name, module)
        rows = torch.cat([*inputs_of(layer, module, call, {})], 1)
        found.setdefault(name, []).append((rows, layer.weight))

    modules = [network.get_submodule(name) for name in network.layers]
    tensors = {name: torch.from_numpy(array) for name, array in feeds.items()}
    watch(network, ((), tensors), modules, see)
    return found


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("given", [(), ("lengths",), ("hidden",), ("lengths", "hidden")])
def test_steps_and_hidden_states(direction, given):
    count = 2 if direction == "bidirectional" else 1
    weights = {"w": drawn(count, 8, 6), "r": drawn(count, 8, 8)}
    weights |= {"lengths": np.array([3, 5, 1], np.int32)} if "lengths" in given else {}
    inputs = "x w r - " + " ".join(n if n in given else "-" for n in ("lengths", "hidden"))
    shapes = {"x": (5, 3, 6)} | ({"hidden": (count, 3, 8)} if "hidden" in given else {})
    layer = node("RNN", inputs, "y", hidden_size=8, direction=direction)
    network = OnnxNetwork(graph([layer], shapes, ["y"], weights))
    feeds = {name: drawn(*shape) for name, shape in shapes.items()}
    found = rows_of(network, **feeds)
    y = torch.from_numpy(network.read(feeds, ["y"])["y"])
    valid = torch.arange(5)[:, None] < torch.tensor([3, 5, 1] if "lengths" in given else [5] * 3)
    for place in range(count):
        ending = "" if count == 1 else ("_forward", "_reverse")[place]
        ((x, w),), ((h, r),) = found[f"w{ending}"], found[f"r{ending}"]
        torch.testing.assert_close(torch.tanh(x[0] @ w.T + h[0] @ r.T), y[:, place][valid])


def test_hidden_states_that_the_file_leaves_out():
    weights = {"w": drawn(1, 16, 6), "r": drawn(1, 16, 4)}
    layer = node("LSTM", "x w r", "- last", hidden_size=4)
    network = OnnxNetwork(graph([layer], {"x": (5, 2, 6)}, ["last"], weights))
    found = rows_of(network, x=drawn(5, 2, 6))
    assert found["r"][0][0].shape == (1, 10, 4)
    assert not found["r"][0][0][0, :2].any()
    assert found["r"][0][0][0, 2:].all()


@pytest.mark.parametrize("same", ["SAME_UPPER", "SAME_LOWER", "NOTSET", "VALID"])
@pytest.mark.parametrize(("dims", "strides"), [(1, [2]), (2, [1, 2]), (2, [3, 3]), (3, [1, 2, 1])])
def test_patches_of_convolutions(same, dims, strides):
    shape, kernel = (2, 4, *(7, 6, 5)[:dims]), (3, 2, 4)[:dims]
    pads = {"pads": [1, 0, 2][:dims] + [0, 2, 1][:dims]} if same == "NOTSET" else {"auto_pad": same}
    dilations = [1] * dims if same.startswith("SAME") else [2, 1, 1][:dims]
    given = {"strides": strides, "dilations": dilations, "kernel_shape": kernel, **pads}
    layer = node("Conv", "x w", "y", **given)
    network = OnnxNetwork(graph([layer], {"x": shape}, ["y"], {"w": drawn(5, 4, *kernel)}))
    feeds = {"x": drawn(*shape)}
    ((rows, weight),) = rows_of(network, **feeds)["w"]
    y = torch.from_numpy(network.read(feeds, ["y"])["y"]).movedim(1, -1).flatten(0, -2)
    torch.testing.assert_close(rows[0] @ weight.flatten(1).T, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("trans", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("left", [False, True])
def test_products_from_either_side(trans, left):
    a, b = (3, 4), (4, 5)
    shapes = [s[::-1] if t else s for s, t in zip((a, b), trans, strict=True)]
    layer = node("Gemm", "w x" if left else "x w", "y", transA=trans[0], transB=trans[1])
    mine, theirs = (shapes[0], shapes[1]) if left else (shapes[1], shapes[0])
    network = OnnxNetwork(graph([layer], {"x": theirs}, ["y"], {"w": drawn(*mine)}))
    feeds = {"x": drawn(*theirs)}
    ((rows, weight),) = rows_of(network, **feeds)["w"]
    y = torch.from_numpy(network.read(feeds, ["y"])["y"])
    torch.testing.assert_close(F.linear(rows[0], weight), y.T if left else y)


def test_a_weight_that_two_nodes_read_is_seen_twice():
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "r"), node("MatMul", "r w", "y")]
    network = OnnxNetwork(graph(nodes, {"x": (2, 4)}, ["y"], {"w": drawn(4, 4)}))
    assert len(rows_of(network, x=drawn(2, 4))["w"]) == 2


@pytest.mark.parametrize("late", [0, 1])
def test_a_gru_that_resets_first_shows_only_what_its_inputs_read(late):
    weights = {"w": drawn(1, 12, 6), "r": drawn(1, 12, 4)}
    layer = node("GRU", "x w r", "y", hidden_size=4, linear_before_reset=late)
    network = OnnxNetwork(graph([layer], {"x": (5, 2, 6)}, ["y"], weights))
    assert set(rows_of(network, x=drawn(5, 2, 6))) == ({"w", "r"} if late else {"w"})
