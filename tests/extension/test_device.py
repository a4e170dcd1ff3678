"""A third party adds a device: passes, rules and kernels for code in C, which runs here."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from tvm.target import Target

import tvm_sparse as ts
from tests.extension.portable import DEVICE, KIND, PASSES, dense_candidates
from tests.extension.striped import STRIPED, striped_candidates
from tests.extension.test_extension import network
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.load import load
from tvm_sparse.registry import register, register_device, unregister, unregister_device

TARGET = Target(KIND)


@pytest.fixture
def device():
    everywhere = {"llvm": striped_candidates, KIND: striped_candidates}
    register(replace(STRIPED, operators=everywhere))
    register_device(KIND, DEVICE, PASSES, dense_candidates)
    yield
    unregister_device(KIND)
    unregister("striped")


@pytest.mark.grid
@pytest.mark.parametrize(("name", "rule"), [("dense", "Unrolled"), ("striped", "StripedRows")])
def test_a_network_runs_as_c(device, name, rule):
    model, x = network(8), torch.randint(-4, 5, (3, 64)).float()
    library = ts.compile(model, (x,), target=TARGET, config=ts.Config(force={"0": name}))
    assert [k.rule for k in library.kernels] == [rule]
    assert [d.chosen for d in library.decisions] == [name]
    assert torch.equal(library(x), model(x))


def test_its_candidates_compete_and_a_batch_may_be_open(device):
    dense = nn.Linear(48, 10).eval()
    with torch.no_grad():
        dense.weight.copy_(torch.randint(1, 3, (10, 48)))
        dense.bias.copy_(torch.randint(-3, 4, (10,)))
    model = nn.Sequential(*network(8), dense).eval()
    source = load(model, (torch.zeros(2, 64),), dynamic_batch=True)
    library = ts.compile(source, target=TARGET)
    assert {d.layer: d.chosen for d in library.decisions} == {"0": "striped", "2": "dense"}
    for rows in (1, 5):
        x = torch.randint(-4, 5, (rows, 64)).float()
        assert torch.equal(library(x), model(x))


def test_numbers_that_it_has_no_kernels_for_keep_tvms_operator(device):
    model = network(8).double()
    x = torch.randint(-4, 5, (3, 64)).double()
    library = ts.compile(model, (x,), target=TARGET)
    assert [k.rule for k in library.kernels] == [None]
    assert torch.equal(library(x), model(x))


def test_what_it_cannot_do_is_refused_by_name(device):
    with pytest.raises(UnsupportedError, match="'c': a convolution; expected linear layers"):
        ts.compile(nn.Conv2d(4, 4, 3).eval(), (torch.zeros(1, 4, 8, 8),), target=TARGET)


def test_without_it_the_kind_is_refused():
    with pytest.raises(UnsupportedError, match="kind 'c'; expected 'llvm' or 'cuda'"):
        ts.compile(network(8), (torch.zeros(3, 64),), target=TARGET)
