"""Whoever builds with TVM has our passes: all of them, a list, or all but some."""

from __future__ import annotations

import pytest
import torch
import tvm
from torch import nn
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

import tvm_sparse as ts
from tvm_sparse.errors import InputError

CONFIG = ts.Config(measure=False)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(576, 8))
    return nn.Sequential(*layers).eval().requires_grad_(False)


@pytest.fixture
def module(net):
    program = torch.export.export(net, (torch.zeros(2, 3, 8, 8),))
    return from_exported_program(program, unwrap_unit_return_tuple=True)


def _call(executable, x: torch.Tensor) -> torch.Tensor:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return torch.from_numpy(machine["main"](tvm.runtime.tensor(x.numpy())).numpy())


def test_tvm_compiles_by_our_passes(net, module):
    ours = ts.relax_pipeline(config=CONFIG)
    target = ts.compile(net, (torch.zeros(2, 3, 8, 8),), config=CONFIG).target
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(_call(tvm.compile(module, target, relax_pipeline=ours), x), net(x))


def test_tvm_knows_it_by_name(module):
    ts.relax_pipeline()
    steps = ["BindWeights", "Simplify", "FoldConstants", "FoldBatchNorm"]
    found = relax.get_pipeline("tvm_sparse", passes=steps)(module)
    assert "batch_norm" in module.script() and "batch_norm" not in found.script()


def test_a_pass_can_be_left_out_and_results_stay(net, module):
    target = ts.compile(net, (torch.zeros(2, 3, 8, 8),), config=CONFIG).target
    part = ts.relax_pipeline(config=CONFIG, without=["FoldBatchNorm", "PoolFirst"])
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(_call(tvm.compile(module, target, relax_pipeline=part), x), net(x))


def test_unknown_passes_are_refused():
    for options in ({"passes": ["Simplify", "Sparsify"]}, {"without": ["Sparsify"]}):
        with pytest.raises(InputError, match=r"passes: 'Sparsify'; expected some of BindWeights"):
            ts.relax_pipeline(**options)
