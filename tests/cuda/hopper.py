"""What tests of kernels by ``wgmma`` share: shapes, a network, machine code, times by hand."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import executed, source, target, typed
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.emulation.process import Change, Emulator
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.wgmma import WgmmaTile
from tvm_sparse.ops.cuda.wgmma_weights import KEPT, Weights
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.instructions import instruction_counts
from tvm_sparse.schedules.cuda.resources import kernel_resources
from tvm_sparse.selection.cuda.chip import chip
from tvm_sparse.selection.cuda.wgmma_option import seconds
from tvm_sparse.testing import emulate

ARCH, LIMIT = "sm_90a", 232448
HALF = Numerics.uniform("float16")

CASES = {
    "one row": ((1,), 200, 130, (8, 64, 4)),
    "odd rows": ((3, 11), 520, 200, (16, 64, 5)),
    "128 features": ((70,), 328, 300, (64, 128, 3)),
}
"""Rows, columns and features of a layer, and those of a tile with its stages."""

DTYPES = [("float16", "float16"), ("bfloat16", "bfloat16"), ("float16", "float32")]
"""Of activations and weights, and of the result."""


def check_exact(
    hopper: Emulator,
    c: Contraction,
    matrix: np.ndarray,
    kernel: tuple[Any, Any],
    change: Change = str,
) -> None:
    """Execute a kernel and its arrays on small integers, and compare with the reference.

    ``change`` may change the PTX before.
    """
    func, arrays = kernel
    x = integers(np.random.default_rng(1), c.input_shape)
    operands = [typed(x, c.dtype), *arrays]
    out = executed(hopper, func, operands, c.output_shape, c.out_dtype, change)
    wanted = typed(reference(c, x, matrix), c.out_dtype).astype("f4")
    np.testing.assert_array_equal(out, wanted)


def outcome(
    hopper: Emulator,
    c: Contraction,
    matrix: np.ndarray,
    kernel: tuple[Any, Any],
    change: Change,
) -> tuple[bool, tuple[Any, ...]]:
    """Return whether the output on small integers is right, and the findings, of changed PTX."""
    func, arrays = kernel
    x = integers(np.random.default_rng(1), c.input_shape)
    blank = typed(np.full(c.output_shape, np.nan), c.dtype)
    operands = [typed(x, c.dtype), *arrays]
    (out,), report = hopper.run(tvm.IRModule({"main": func}), operands, [blank], change)
    return np.array_equal(out.astype("f4"), reference(c, x, matrix)), report.findings


def changing(pattern: str, text: str) -> Change:
    """Return a change of PTX, which has to have something to change."""

    def change(ptx: str) -> str:
        changed, count = re.subn(pattern, text, ptx)
        assert count
        return changed

    return change


def instructions(func: Any) -> Counter[str]:
    """Return the instructions of a kernel without spills of which the assembler says nothing."""
    cubin, said = nvrtc.compile_telling(source(func, ARCH), ARCH)
    assert not said, said  # the assembler would say that it lets products wait for one another
    assert all(used.stack == 0 for used in kernel_resources(cubin).values())
    return sum(instruction_counts(cubin).values(), Counter())


class Net(nn.Module):
    """Layers with a bias, ReLU, GELU and a residual behind them."""

    def __init__(self, width: int, last: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)
        self.c = nn.Linear(width, last)

    def forward(self, x):
        y = nn.functional.gelu(self.a(x))
        return torch.relu(self.c(self.b(y) + x))


def check_epilogues(model: Net, format: str, *, open_batch: bool) -> None:
    """Compile a network of halves with all layers in ``format``, and execute it."""
    x = torch.randn(33, model.a.in_features).half()
    shapes = ({0: torch.export.Dim("batch", min=1, max=128)},) if open_batch else None
    library = ts.compile(
        model,
        (x,),
        target=f"cuda:{ARCH}",
        dynamic_shapes=shapes,
        config=ts.Config(measure=False, force={name: format for name in "abc"}),
    )
    for rows in (33, 1) if open_batch else (33,):
        emulation = emulate(library, x[:rows].numpy())
        assert not emulation.report.findings, emulation.report.findings
        with torch.no_grad():
            wanted = model.float()(x[:rows].float())
        np.testing.assert_allclose(emulation.outputs[0], wanted, rtol=2e-2, atol=2e-2)
    rules = {kernel.rule for kernel in library.kernels if kernel.layer}
    assert rules == {"TileWgmma"}


def modelled_over_by_hand(
    pattern: str, steps: Callable[[int, Any], int], weights: Weights = KEPT
) -> list[float]:
    """Return modelled over measured times of kernels by hand, of 8192 x 8192.

    ``steps`` gives those of all tiles of so many features, of a row of results.
    """
    rows = json.loads(Path("benchmarks/results/gpu_hopper.json").read_text())["rows"]
    ratios = []
    for row in (row for row in rows if re.match(pattern, row["pattern"])):
        shape, features = row["shape"], 64 * row["shape"]["groups"]
        tile = WgmmaTile(shape["rows"], features, shape["stages"], weights)
        nbytes = row["weight_bytes"] + 4 * row["rows"] * 8192
        of_all = 8192 // features, steps(features, row)
        time = seconds(row["rows"], of_all, tile, nbytes, chip(target(ARCH)))
        ratios.append(time * 1e6 / row["times"]["by hand"]["median_us"])
    return ratios
