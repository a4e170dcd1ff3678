"""2:4 weights on Hopper's sparse tensor cores: executed, broken on purpose, and when chosen."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import tvm
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import executed, needs_nvrtc, scheduled, source, target, typed
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.emulation.process import Emulator
from tvm_sparse.formats.swizzled_quads import STEP, SwizzledQuadsFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.wgmma import WgmmaTile as Tile
from tvm_sparse.ops.cuda.wgmma import wgmma_two_four
from tvm_sparse.ops.cuda.wgmma_source import TWO_FOUR
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.instructions import instruction_counts
from tvm_sparse.schedules.cuda.resources import kernel_resources
from tvm_sparse.schedules.cuda.tile_wgmma import TileWgmmaRule
from tvm_sparse.selection.cuda import options, wgmma_option
from tvm_sparse.selection.cuda.chip import chip
from tvm_sparse.selection.cuda.wgmma_option import seconds, tile_of
from tvm_sparse.testing import emulate

ARCH, LIMIT = "sm_90a", 232448
HALF = Numerics.uniform("float16")
QUADS = Balanced(4, 2)
WgmmaTile = functools.partial(Tile, weights=TWO_FOUR)


@pytest.fixture(scope="module")
def hopper():
    with Emulator(target(ARCH)) as found:
        yield found


def kept(shape, seed=0):
    """A mask of two of four neighbouring columns."""
    rows, columns = shape
    scores = np.random.default_rng(seed).random((rows, -(-columns // 4) * 4), dtype=np.float32)
    return QUADS.project(scores)[:, :columns]


def pruned(c):
    return integers(np.random.default_rng(0), c.matrix_shape) * kept(c.matrix_shape)


def operator(c, tile, matrix):
    format = SwizzledQuadsFormat(*c.matrix_shape, tile.features)
    func = scheduled(wgmma_two_four(c, format, tile), TileWgmmaRule(), ARCH)
    return func, format.encode(typed(matrix, c.dtype)).values()


CASES = {
    "one row": ((1,), 200, 130, WgmmaTile(8, 64, 4)),
    "odd rows": ((3, 11), 520, 200, WgmmaTile(16, 64, 5)),
    "128 features": ((70,), 328, 300, WgmmaTile(64, 128, 3)),
}


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("dtype", "result"),
    [("float16", "float16"), ("bfloat16", "bfloat16"), ("float16", "float32")],
)
def test_small_integers_are_exact(hopper, case, dtype, result):
    lead, columns, features, tile = CASES[case]
    numerics = dataclasses.replace(Numerics.uniform(dtype), output=result)
    c = Contraction(lead, columns, features, numerics=numerics)
    matrix, x = pruned(c), integers(np.random.default_rng(1), c.input_shape)
    func, arrays = operator(c, tile, matrix)
    out = executed(hopper, func, [typed(x, dtype), *arrays], c.output_shape, result)
    wanted = typed(reference(c, x, matrix), result).astype("f4")
    np.testing.assert_array_equal(out, wanted)


LOAD = r"(ld\.shared\.u32\s+%r\d+, \[%r\d+)\]"
FOUND = {
    "copies are not waited for": (r"cp\.async\.wait_group 2;", "cp.async.wait_group 9;"),
    "no proxy fence": (r"fence\.proxy\.async\.shared::cta;", ""),
    "a product is not waited for": (r"wgmma\.wait_group\.sync\.aligned 0;", ""),
    "no fence of registers": (r"wgmma\.fence\.sync\.aligned;", ""),
    "too many bytes": (r"(expect_tx.*) 9216;", r"\1 9232;"),
    "nobody waits for a step": (r"@p bra DONE;\nbra AGAIN;", ""),
    "places behind the last": (LOAD, r"\1+1024]"),
}


def broken(hopper, change, tile=WgmmaTile(8, 64, 5)):
    """Return whether the output is right, and the findings, with a change of the PTX."""
    c = Contraction((tile.rows,), 1280, tile.features, numerics=HALF)
    matrix, x = pruned(c), integers(np.random.default_rng(1), c.input_shape)
    func, arrays = operator(c, tile, matrix)
    blank = typed(np.full(c.output_shape, np.nan), c.dtype)
    operands = [typed(x, c.dtype), *arrays]
    (out,), report = hopper.run(tvm.IRModule({"main": func}), operands, [blank], change)
    return np.array_equal(out.astype("f4"), reference(c, x, matrix)), report.findings


def replaced(pattern, text):
    def change(ptx):
        changed, count = re.subn(pattern, text, ptx)
        assert count
        return changed

    return change


@needs_nvrtc
@pytest.mark.parametrize("mutation", FOUND)
def test_what_is_broken_is_found(hopper, mutation):
    assert broken(hopper, replaced(*FOUND[mutation]))[1]


@needs_nvrtc
def test_places_of_another_feature_are_noticed(hopper):
    assert not broken(hopper, replaced(LOAD, r"\1+8]"))[0]


@needs_nvrtc
def test_words_that_the_next_step_overwrites_are_found(hopper):
    """Why a step waits for its products: one that is under way still reads its words."""
    right, findings = broken(hopper, str, WgmmaTile(64, 64, 3))
    assert right and not findings
    early = dataclasses.replace(TWO_FOUR, name="too_early", pending=1)
    _, findings = broken(hopper, str, Tile(64, 64, 3, early))
    assert {found.kind for found in findings} == {"open register"}


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("rows", [8, 64, 128])
@pytest.mark.parametrize("features", [64, pytest.param(128, marks=pytest.mark.slow)])
def test_machine_code_has_the_products_and_no_spills(rows, features):
    c = Contraction((rows,), 512, 256, numerics=HALF)
    tile = tile_of(rows, features, LIMIT, 2, TWO_FOUR)
    assert tile.rows == rows
    func, _ = operator(c, tile, pruned(c))
    cubin, said = nvrtc.compile_telling(source(func, ARCH), ARCH)
    assert not said, said  # the assembler would say that it lets products wait for one another
    assert all(used.stack == 0 for used in kernel_resources(cubin).values())
    counts = sum(instruction_counts(cubin).values(), Counter())
    assert counts["HGMMA.SP"] and not counts["HMMA"], counts


class Net(nn.Module):
    """A bias and GELU, a residual and ReLU behind layers."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(256, 256), nn.Linear(256, 256), nn.Linear(256, 72)

    def forward(self, x):
        y = nn.functional.gelu(self.a(x))
        return torch.relu(self.c(self.b(y) + x))


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("open_batch", [False, True])
def test_a_network_with_epilogues_equals_pytorch(open_batch, monkeypatch):
    monkeypatch.setitem(wgmma_option.UNMEASURED, TWO_FOUR, 0.01)  # layers as small go elsewhere
    torch.manual_seed(0)
    model = Net().half().eval()
    with torch.no_grad():
        for layer in (model.a, model.b, model.c):
            layer.weight *= torch.from_numpy(kept(layer.weight.shape))
    x = torch.randn(33, 256).half()
    shapes = ({0: torch.export.Dim("batch", min=1, max=128)},) if open_batch else None
    library = ts.compile(
        model,
        (x,),
        target=f"cuda:{ARCH}",
        dynamic_shapes=shapes,
        config=ts.Config(measure=False, force={name: "two_four" for name in "abc"}),
    )
    for rows in (33, 1) if open_batch else (33,):
        emulation = emulate(library, x[:rows].numpy())
        assert not emulation.report.findings, emulation.report.findings
        with torch.no_grad():
            wanted = model.float()(x[:rows].float())
        np.testing.assert_allclose(emulation.outputs[0], wanted, rtol=2e-2, atol=2e-2)
    rules = {kernel.rule for kernel in library.kernels if kernel.layer}
    assert rules == {"TileWgmma"}


@pytest.mark.parametrize(
    ("rows", "arch", "dtype", "kernel"),
    [
        (64, "sm_90a", "float16", "wgmma"),
        (1024, "sm_90a", "bfloat16", "wgmma"),
        (64, "sm_90", "float16", "2:4 tile"),
        (64, "sm_80", "float16", "2:4 tile"),
    ],
)
def test_hopper_alone_has_them(rows, arch, dtype, kernel):
    c = Contraction((rows,), 4096, 4096, numerics=Numerics.uniform(dtype))
    weight = kept(c.matrix_shape).astype("f4")
    (found,) = options.two_four(c, Scan(weight), target(arch))
    assert found.kernel == kernel


def test_no_time_by_hand_is_above_the_modelled_one():
    rows = json.loads(Path("benchmarks/results/gpu_hopper.json").read_text())["rows"]
    ratios = []
    for row in rows:
        if not row["pattern"].startswith("2:4"):
            continue
        shape, count = row["shape"], row["rows"]
        features = 64 * shape["groups"]
        tile = WgmmaTile(shape["rows"], features, shape["stages"])
        steps = 8192 // features, 8192 // features * (8192 // STEP)
        nbytes = row["weight_bytes"] + 4 * count * 8192
        us = row["times"]["by hand"]["median_us"]
        ratios.append(seconds(count, steps, tile, nbytes, chip(target(ARCH))) * 1e6 / us)
    assert len(ratios) == 3
    assert 1 <= min(ratios) and max(ratios) <= 1.3
