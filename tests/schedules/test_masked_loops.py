"""Loops over indices modulo a power of two, which LLVM's vectoriser reads past the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import tvm
from tvm import te

import tvm_sparse as ts
from tvm_sparse.base.targets import parse_target
from tvm_sparse.schedules.build import build_scheduled
from tvm_sparse.schedules.cpu.device import CPU
from tvm_sparse.schedules.cpu.masked_loops import SplitMaskedLoops, careful, has_masked_loop


def pairs(size, columns):
    """Return ``c[i, j] = a[i, j % size] + a[i, j // size % size]``, one loop for each axis."""
    a = te.placeholder((8, size), name="a")
    place = (8, columns)
    c = te.compute(place, lambda i, j: a[i, j % size] + a[i, j // size % size], name="c")
    return te.create_prim_func([a, c]).with_attr("global_symbol", "main")


@pytest.mark.parametrize(
    ("size", "columns", "masked"),
    [(32, 1024, True), (16, 320, True), (4, 320, True), (33, 1089, False), (32, 32, False)],
)
def test_sums_of_pairs(size, columns, masked):
    func = pairs(size, columns)
    assert has_masked_loop(func) == masked
    built = build_scheduled(tvm.IRModule({"main": func}), parse_target("cpu").target)
    a = np.random.default_rng(0).standard_normal((8, size)).astype(np.float32)
    found = tvm.runtime.tensor(np.zeros((8, columns), np.float32))
    built.mod["main"](tvm.runtime.tensor(a), found)
    j = np.arange(columns)
    np.testing.assert_array_equal(found.numpy(), a[:, j % size] + a[:, j // size % size])


def test_only_modules_with_such_a_loop_change_the_target():
    target = parse_target("cpu").target
    plain = tvm.IRModule({"main": pairs(33, 1089)})
    assert careful(target, plain) is target
    masked = careful(target, tvm.IRModule({"main": pairs(32, 1024)}))
    assert list(masked.attrs["cl-opt"]) == ["-vectorize-loops:bool=false"]
    assert masked.attrs["mcpu"] == target.attrs["mcpu"]


class Products(torch.nn.Module):
    """Products of each pair of a row's elements, added to another order of them."""

    def forward(self, x):
        """Return them."""
        rows = x.shape[0]
        first = (x.unsqueeze(2) * x.unsqueeze(1)).reshape(rows, -1)
        return first + torch.cat([x] * x.shape[1], 1)


def test_a_network_with_such_a_loop():
    x, model = torch.randn(8, 32), Products()
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    torch.testing.assert_close(library(x), model(x))


def test_loops_are_split_where_that_ends_their_masks():
    functions = {"even": pairs(32, 1024), "odd": pairs(16, 328), "plain": pairs(33, 1089)}
    mod = tvm.IRModule({n: f.with_attr("global_symbol", n) for n, f in functions.items()})
    split = SplitMaskedLoops()(mod)
    assert {n: has_masked_loop(split[n]) for n in functions} == {
        "even": False,
        "odd": True,
        "plain": False,
    }
    for same in ("odd", "plain"):
        tvm.ir.assert_structural_equal(split[same], mod[same])


def test_a_network_whose_loops_are_split_keeps_the_vectoriser(monkeypatch):
    seen = []
    watched = replace(CPU, options=lambda target, mod: seen.append(careful(target, mod)) or target)
    monkeypatch.setattr("tvm_sparse.program.compiler.device_of", lambda target: watched)
    heads = torch.nn.Sequential(torch.nn.Unflatten(2, (4, 32)), Swapped(), torch.nn.Flatten(2))
    x = torch.randn(1, 4, 128)
    library = ts.compile(heads, (x,), config=ts.Config(measure=False))
    torch.testing.assert_close(library(x), heads(x))
    assert "cl-opt" not in seen[0].attrs


class Swapped(torch.nn.Module):
    """Swaps heads and rows."""

    def forward(self, x):
        """Return them swapped."""
        return torch.relu(x).transpose(1, 2)
