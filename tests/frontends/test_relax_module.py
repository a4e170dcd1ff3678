"""Relax modules that TVM's own front end made are compiled like the network that they came from."""

from __future__ import annotations

import pytest
import torch
import tvm
from torch import nn
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

import tvm_sparse as ts
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.pruning.methods.balanced import BalancedPruning

CONFIG = ts.Config(measure=False)


class Net(nn.Module):
    """Two layers around an activation; the second one's weight is also added."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        """Return two results of ``(batch, 32)``."""
        found = self.two(torch.relu(self.one(x)))
        return found, found + self.two.weight[0, :32]


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    net = Net().eval().requires_grad_(False)
    ts.prune.prune(net, BalancedPruning(0.75)).squash_mask()
    return net


def _module(net, *, keep: bool, opened: bool = False) -> tvm.IRModule:
    shapes = ({0: torch.export.Dim("n", min=1, max=9)},) if opened else None
    program = torch.export.export(net, (torch.zeros(4, 32),), dynamic_shapes=shapes)
    return from_exported_program(program, keep_params_as_input=keep)


@pytest.mark.grid
@pytest.mark.parametrize("keep", [False, True], ids=["constants", "parameters"])
@pytest.mark.parametrize("opened", [False, True], ids=["fixed", "open"])
def test_results_are_those_of_the_network(net, keep, opened):
    library = ts.compile(_module(net, keep=keep, opened=opened), config=CONFIG)
    x = torch.randn(7 if opened else 4, 32)
    for found, wanted in zip(library.run(x), net(x), strict=True):
        torch.testing.assert_close(found, wanted)
    layers = [decision.layer for decision in library.decisions]
    assert layers == (["p_one_weight", "p_two_weight"] if keep else ["constant_0", "constant_2"])
    assert {decision.pattern for decision in library.decisions} == {"balanced 4 of 16"}


def test_bound_parameters_are_constants(net):
    module, params = relax.frontend.detach_params(_module(net, keep=True))
    with pytest.raises(InputError, match=r"4 parameters .* 0 values; .*BindParams\('main'"):
        ts.compile(module, config=CONFIG)
    bound = relax.transform.BindParams("main", dict(zip(_names(module), params["main"])))(module)
    x = torch.randn(4, 32)
    torch.testing.assert_close(ts.compile(bound, config=CONFIG).run(x)[0], net(x)[0])


def _names(module: tvm.IRModule) -> list[str]:
    main = module["main"]
    return [param.name for param in main.params][int(main.attrs["num_input"]) :]


def test_what_is_no_operator_is_refused_by_name(net):
    module = _module(net, keep=False)
    with pytest.raises(
        UnsupportedError, match=r"calls '(transpose|matmul)' by relax.call_tir; .*LegalizeOps"
    ):
        ts.compile(relax.transform.LegalizeOps()(module))
    with pytest.raises(InputError, match=r"has the functions \['other'\]; .*'main'"):
        ts.compile(tvm.IRModule({"other": module["main"]}))
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        call = relax.call_dps_packed("mine", x, out_ty=relax.TensorType((4,), "float32"))
        builder.emit_func_output(builder.emit(call))
    with pytest.raises(UnsupportedError, match=r"'mine' by relax\.call_dps_packed"):
        ts.compile(builder.get())


def test_a_module_that_calls_another_function_is_refused():
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("helper", [x], private=True):
        helper = builder.emit_func_output(builder.emit(relax.op.exp(x)))
    y = relax.Var("y", relax.TensorType((4,), "float32"))
    with builder.function("main", [y]):
        builder.emit_func_output(builder.emit(relax.Call(helper, [y])))
    with pytest.raises(UnsupportedError, match="main: calls 'helper'"):
        ts.compile(builder.get())


def test_the_callers_module_is_unchanged(net):
    module = _module(net, keep=False)
    before = module.script(show_meta=True)
    ts.compile(module, config=CONFIG)
    assert module.script(show_meta=True) == before


def test_zeros_are_found_without_compiling(net):
    rows = ts.inspect(_module(net, keep=True)).to_json()["layers"]
    assert [(row["layer"], round(row["sparsity"], 2)) for row in rows] == [
        ("p_one_weight", 0.75),
        ("p_two_weight", 0.75),
    ]
