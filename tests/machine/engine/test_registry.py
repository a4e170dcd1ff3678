"""Pairs of numerics and machine that nobody tested are refused by every operator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm.target import Target

from tests.kernels import host
from tests.machines import changed_machine
from tvm_sparse.base.numerics import BFLOATS, BYTE_PRODUCTS, FLOAT32, FLOAT64, INTEGERS, Numerics
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.winograd import WinogradFormat
from tvm_sparse.machine.engine.registry import (
    ENGINES,
    engine_of,
    known,
    require_gpu,
    require_product,
    require_tiles,
    supported,
)
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.batch_matmul import View, batch_matmul
from tvm_sparse.ops.contractions.block import block
from tvm_sparse.ops.contractions.compressed_rows import compressed_rows
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.dense import dense
from tvm_sparse.ops.contractions.depthwise import depthwise
from tvm_sparse.ops.contractions.depthwise_taps import depthwise_taps
from tvm_sparse.ops.contractions.joint import joint
from tvm_sparse.ops.contractions.winograd import fits, winograd

INT16 = Numerics.uniform("int16", "int32")
CUDA = Target({"kind": "cuda", "arch": "sm_90"})
MATRIX = np.eye(32, dtype=np.float32)
ROWS = CompressedRowsFormat.of(MATRIX, group=16, tile_rows=16, tile_cols=32)
PLANE = Contraction((1, 4, 4), 16, 16, (3, 3), (1, 1), (1, 1), (6, 6))
CHANNELS = replace(PLANE, columns=32, features=32, depthwise=True)
TAPS = CompressedRowsFormat.of(np.ones((32, 9), np.float32), group=16, tile_rows=16, tile_cols=9)
LINEAR = Contraction((4,), 32, 32)

BUILDERS = {
    "balanced": lambda n, t: balanced(replace(LINEAR, numerics=n), BalancedFormat.of(MATRIX), t),
    "block": lambda n, t: block(replace(LINEAR, numerics=n), ROWS, t),
    "joint": lambda n, t: joint(
        replace(LINEAR, numerics=n), CompressedBanksFormat.of(MATRIX, keep=4), t
    ),
    "compressed rows": lambda n, t: compressed_rows(replace(LINEAR, numerics=n), ROWS, t),
    "dense": lambda n, t: dense(replace(LINEAR, numerics=n), DenseFormat(32, 32), t),
    "depthwise": lambda n, t: depthwise(replace(CHANNELS, numerics=n), t),
    "depthwise taps": lambda n, t: depthwise_taps(replace(CHANNELS, numerics=n), TAPS, t),
    "winograd": lambda n, t: winograd(replace(PLANE, numerics=n), WinogradFormat(16, 16), t),
    "matmul": lambda n, t: batch_matmul(View((4, 8)), View((8, 4)), View((4, 4)), t, n),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_operators_refuse_what_has_no_engine(name):
    BUILDERS[name](FLOAT32, host())
    with pytest.raises(UnsupportedError, match=r"int16, output int32 on .*no engine"):
        BUILDERS[name](INT16, host())
    with changed_machine(engines=False), pytest.raises(UnsupportedError, match="on changed"):
        BUILDERS[name](FLOAT32, host())


@pytest.mark.parametrize("dtype", ["float16", "int16"])
def test_only_tested_pairs_are_supported(dtype):
    assert not supported(Numerics.uniform(dtype), host())
    assert supported(FLOAT32, host())
    assert supported(FLOAT64, host()) and not supported(FLOAT64, CUDA)


def test_half_precision_is_stored_on_cpus_and_multiplied_on_gpus():
    half = Numerics.uniform("float16")
    assert supported(FLOAT32.with_weights("float16"), host())
    assert not supported(FLOAT32.with_weights("float16"), CUDA)
    assert supported(half, CUDA)
    kinds = {"float32", "float16", "bfloat16", "uint8", "int8"}
    assert {n.activation for n in known(CUDA)} == kinds


def test_gpu_kernels_refuse_integers_unless_bytes_are_in_tiles():
    for require, refused in ((require_gpu, (INT16, *INTEGERS)), (require_tiles, (INT16,))):
        for numerics in refused:
            with pytest.raises(UnsupportedError, match="output int32 on CUDA"):
                require(numerics)
        require(Numerics.uniform("bfloat16", "float32"))
    require_tiles(INTEGERS[0])


def test_products_of_activations_on_gpus_are_of_floats_or_of_bytes_of_any_sign():
    for numerics in (*BYTE_PRODUCTS, Numerics.uniform("bfloat16", "float32")):
        require_product(numerics)
    with pytest.raises(UnsupportedError, match="output int32 on CUDA"):
        require_product(INT16)


def test_winograd_does_not_fit_integers():
    assert fits(PLANE, host())
    for numerics in (INT16, *INTEGERS, *BFLOATS):
        assert not fits(replace(PLANE, numerics=numerics), host())


@pytest.mark.parametrize("name", ["compressed rows", "winograd", "matmul"])
@pytest.mark.parametrize("numerics", [*INTEGERS, *BFLOATS], ids=str)
def test_operators_of_one_column_a_lane_refuse_several(name, numerics):
    with pytest.raises(UnsupportedError, match="with one column a lane"):
        BUILDERS[name](numerics, host())


def test_third_parties_add_a_pair():
    with changed_machine() as machine:
        engine = engine_of(FLOAT32, host())
        assert (engine.machine, engine.lanes, engine.depth) == (machine, 16, 1)
    assert all(name != machine.name for _, name in ENGINES)
