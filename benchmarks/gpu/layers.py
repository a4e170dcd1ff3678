"""Measure one case on a GPU: our kernels and the libraries', all outputs verified first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import tvm

from benchmarks.gpu import device, libraries
from benchmarks.gpu.cases import Case
from benchmarks.gpu.prepare import Kernel, load
from benchmarks.gpu.timing import Timer
from tvm_sparse.ops.contractions.contraction import Contraction

ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}
SUMS = 2.0**-24
"""Half a unit in the last place of an fp32 sum."""


def measure(
    case: Case, kernels: Sequence[Kernel], target: str, timer: Timer, tune_libraries: bool
) -> dict[str, Any]:
    """Return the row of ``case``: times and records of our kernels and of all libraries.

    Raises
    ------
    ArithmeticError
        If one of our kernels differs from the fp32 reference by more than rounding allows.
    """
    layer = Layer(case)
    x, weight, expected, magnitude = layer.x, layer.weight, layer.expected, layer.magnitude
    programs, records, errors = {}, {}, {}
    for kernel in kernels:
        program, record, share = layer.ours(kernel, target)
        programs[f"ours {kernel.format}"] = program
        records[kernel.format], errors[kernel.format] = record, share
    found, missing = libraries.sparse(case, x, weight, tune=tune_libraries)
    dense = libraries.working(libraries.dense(case, x, weight), missing)
    for name, program in {**dense, **found}.items():
        errors[name] = error_share(case, program(), expected, magnitude)
        programs[name] = program
    return {
        "case": case.name,
        "rows": case.contraction.lead[0],
        "pattern": case.pattern,
        "sparsity": float((weight == 0).float().mean()),
        "dense_bytes": weight.numel() * weight.element_size(),
        "kernels": records,
        "libraries_dense": sorted(dense),
        "libraries_sparse": sorted(found),
        "missing": missing,
        "errors": errors,
        **timer.row(programs),
    }


class Layer:
    """The operands of a case on the GPU, random ones from seeds, and what it must compute."""

    def __init__(self, case: Case) -> None:
        c, on, generator = case.contraction, device.current(), torch.Generator().manual_seed(0)
        self.case = case
        self.x = on.put(_random(c, generator))
        self.weight = on.put(torch.from_numpy(case.weight()))
        self.expected, self.magnitude = reference(case, self.x, self.weight)

    def ours(self, kernel: Kernel, target: str) -> tuple[libraries.Program, dict[str, Any], float]:
        """Return the program of a kernel, its record, and its error as a share of the allowed one.

        Raises
        ------
        ArithmeticError
            It differs from the reference by more than rounding allows.
        """
        on = device.current()
        func, arrays, record = load(kernel, target, ptx=on.ptx)
        shape, own = self.case.contraction.output_shape, record["workspaces"]
        out_dtype = getattr(torch, self.case.contraction.out_dtype)
        program, out = ours(func, arrays, self.x, shape, own, dtype=out_dtype)
        program()
        on.wait()
        share = error_share(self.case, out, self.expected, self.magnitude)
        if share > 1:
            raise ArithmeticError(f"{kernel.name}: {share:.3g} times the allowed error")
        return program, record, share


def _random(c: Contraction, generator: torch.Generator) -> torch.Tensor:
    """Return normal floats, or integers of the whole range."""
    dtype = getattr(torch, c.dtype)
    if dtype.is_floating_point:
        return torch.randn(c.input_shape, generator=generator).to(dtype)
    limits = torch.iinfo(dtype)
    return torch.randint(
        limits.min, limits.max + 1, c.input_shape, generator=generator, dtype=dtype
    )


def ours(
    func: Any,
    arrays: Sequence[np.ndarray],
    x: torch.Tensor,
    shape: tuple[int, ...],
    workspaces: Sequence[tuple[Sequence[int], str]] = (),
    *,
    dtype: torch.dtype | None = None,
) -> tuple[libraries.Program, torch.Tensor]:
    """Return a program that runs ``func`` on tensors that are on the GPU once, and its output.

    That has the ``dtype`` of the input, unless it is given.
    """
    on, dtype = device.current(), dtype or x.dtype
    blank = float("nan") if dtype.is_floating_point else torch.iinfo(dtype).min
    out = on.put(torch.full(shape, blank, dtype=dtype))
    held = [tvm.runtime.tensor(np.ascontiguousarray(a), tvm.cuda(0)) for a in arrays]
    own = [tvm.runtime.empty(tuple(size), kind, tvm.cuda(0)) for size, kind in workspaces]
    operands = [on.share(x), *held, on.share(out), *own]

    def program() -> torch.Tensor:
        func(*operands)
        return out

    return program, out


def reference(
    case: Case, x: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output in float64, and that of all absolute values."""

    def product(image: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        c = case.contraction
        if not c.taps:
            return image @ matrix.t()
        kernel = libraries.filters(c, matrix)
        out = torch.nn.functional.conv2d(image.permute(0, 3, 1, 2), kernel, **libraries.window(c))
        return out.permute(0, 2, 3, 1)

    wide, matrix = x.double(), weight.double()
    return product(wide, matrix), product(wide.abs(), matrix.abs())


def error_share(
    case: Case, out: torch.Tensor, expected: torch.Tensor, magnitude: torch.Tensor
) -> float:
    """Return the largest error as a share of what fp32 sums and one rounding allow.

    The bound is ``terms * u * |A| |B|`` (Higham, section 3.5) and half a unit of the output. None
    is allowed of integers.
    """
    if not out.dtype.is_floating_point:
        return 0.0 if torch.equal(out.double(), expected) else float("inf")
    terms = case.contraction.matrix_shape[1]
    allowed = magnitude * (terms * SUMS) + expected.abs() * ROUNDING[out.dtype] + 1e-6
    share = (out.double() - expected).abs() / allowed
    return float(share.nan_to_num(nan=float("inf")).max())
