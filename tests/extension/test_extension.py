"""A third party adds a pattern with its kernel, numerics, a machine, a front end and a method."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from tvm import tirx

import tvm_sparse as ts
from tests.extension.striped import STRIPED, Striped
from tests.kernels import host, integers, keep_of_bank, run
from tvm_sparse.base.numerics import FLOAT32, Numerics
from tvm_sparse.base.targets import parse_target
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.frontends.registry import FRONT_ENDS, FrontEnd, suffix
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.machine.engine.floats import FloatEngine
from tvm_sparse.machine.engine.registry import ENGINES, engine_of
from tvm_sparse.machine.plain import PLAIN
from tvm_sparse.machine.record import Costs
from tvm_sparse.machine.registry import MACHINES, machine_of
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense
from tvm_sparse.patterns.detector import detect
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.pruning.methods.projection import UnstructuredPruning
from tvm_sparse.pruning.recipe import METHODS, parse_recipe
from tvm_sparse.registry import register, unregister
from tvm_sparse.selection.cpu.balanced import balanced_candidates
from tvm_sparse.testing import check_kind


@pytest.fixture
def striped():
    register(STRIPED)
    yield
    unregister("striped")


def network(stripes: int) -> nn.Module:
    """Return integers in a layer of which each ``stripes``-th column is kept."""
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU()).eval()
    kept = torch.arange(64) % stripes == 0
    with torch.no_grad():
        model[0].weight.copy_(torch.randint(1, 4, (48, 64)) * kept)
        model[0].bias.copy_(torch.randint(-3, 4, (48,)))
    return model


def test_the_kind_passes_the_checks():
    check_kind(STRIPED)


def test_a_kind_is_found_chosen_and_run(striped):
    model, x = network(8), torch.randint(-4, 5, (3, 64)).float()
    found = detect(model[0].weight.detach().numpy())
    assert Striped() in [fit.pattern for fit in found.candidates]
    config = ts.Config(measure=False, force={"0": "striped"})
    library = ts.compile(model, (x,), config=config)
    (decision,) = library.decisions
    assert decision.chosen == "striped"
    assert [k.rule for k in library.kernels if k.layer == "0"] == ["StripedRows"]
    assert torch.equal(library(x), model(x))


def test_what_does_not_fit_says_why(striped):
    model = nn.Conv2d(16, 16, 3).eval()
    model.weight.data[:, ::2] = 0
    with pytest.raises(InputError, match="striped: linear layers only"):
        ts.compile(
            nn.Sequential(model),
            (torch.zeros(1, 16, 8, 8),),
            config=ts.Config(measure=False, force={"0": "striped"}),
        )


TOY = replace(PLAIN, name="toy", costs=Costs("a toy's data sheet", lookup=((16, 0.25),)))


@pytest.fixture
def machine():
    MACHINES.add(TOY.name, TOY)
    yield TOY
    MACHINES.remove(TOY.name)


def test_a_machine_has_code_once_it_has_an_engine(machine):
    target = parse_target("cpu").target
    assert machine_of(target) is machine
    with pytest.raises(UnsupportedError, match="toy, which has no engine"):
        engine_of(FLOAT32, target)
    ENGINES[FLOAT32, machine.name] = FloatEngine
    try:
        scan = Scan(np.eye(64, dtype=np.float32))
        (candidate,) = balanced_candidates(Contraction((64,), 64, 64), scan, target)
        assert candidate.penalty == 1 + 0.25 / candidate.format.share, "its own costs"
        model, x = network(4), torch.randint(-4, 5, (3, 64)).float()
        config = ts.Config(measure=False, tuned=False, force={"0": "balanced"})
        assert torch.equal(ts.compile(model, (x,), config=config)(x), model(x))
    finally:
        del ENGINES[FLOAT32, machine.name]


BYTES = Numerics("float32", "int8", "float32", "float32")


class ByteWeights(Engine):
    """Weights of one byte, widened in registers and multiplied with floats."""

    @property
    def held(self):
        return "int8"

    def weights(self, stored):
        return tirx.Cast(f"float32x{stored.ty.dtype.lanes}", stored)

    def multiply(self, sums, weights, activations):
        return sums + weights * activations


@pytest.fixture
def numerics():
    pair = (BYTES, machine_of(host()).name)
    ENGINES[pair] = ByteWeights
    yield BYTES
    del ENGINES[pair]


def test_numerics_of_a_third_party_refused_without_an_engine():
    with pytest.raises(UnsupportedError, match=r"weights int8 on .*, which has no engine"):
        engine_of(BYTES, host())


@pytest.mark.parametrize("sparse", [False, True])
def test_numerics_of_a_third_party_run_in_the_operators_there_are(numerics, sparse):
    contraction = Contraction((5,), 64, 40, numerics=numerics)
    rng = np.random.default_rng(0)
    matrix = keep_of_bank(rng, contraction.matrix_shape, 4).astype(np.int8)
    format = BalancedFormat.of(matrix) if sparse else DenseFormat(*matrix.shape)
    operator = (balanced if sparse else dense)(contraction, format, host())
    x = integers(rng, contraction.input_shape)
    arrays = format.encode(matrix)
    assert arrays["values"].dtype == np.int8
    found = run(operator, [x, *arrays.values()], contraction.output_shape)
    assert (found == reference(contraction, x, matrix)).all()


def open_toy(source, _weights):
    """Return the network of a file that lists the widths of linear layers."""
    widths = json.loads(Path(source).read_text())
    layers = [nn.Linear(*pair) for pair in pairwise(widths)]
    return ts.load(nn.Sequential(*layers).eval(), torch.zeros(1, widths[0]))


def test_a_front_end_opens_its_files(tmp_path):
    path = tmp_path / "net.toy"
    path.write_text("[16, 32, 8]")
    with pytest.raises(InputError, match="is no model file"):
        ts.load(path)
    FRONT_ENDS.add("toy", FrontEnd(suffix(".toy"), open_toy))
    try:
        assert list(ts.load(path).weights) == ["0.weight", "0.bias", "1.weight", "1.bias"]
        assert len(ts.inspect(path).rows) == 2
        library = ts.compile(path, config=ts.Config(measure=False))
        assert tuple(library(torch.zeros(1, 16)).shape) == (1, 8)
        with pytest.raises(InputError, match="come without a factory"):
            ts.load(path, weights="w.safetensors")
    finally:
        FRONT_ENDS.remove("toy")


@dataclass(frozen=True)
class Toy(UnstructuredPruning):
    """Another name for a method, with its parameters."""


def test_a_recipe_names_a_method(tmp_path):
    METHODS.add("toy", Toy)
    try:
        assert parse_recipe({"method": "toy", "sparsity": 0.5}).method == Toy(0.5)
    finally:
        METHODS.remove("toy")
    with pytest.raises(InputError, match="unknown 'toy'"):
        parse_recipe({"method": "toy", "sparsity": 0.5})
