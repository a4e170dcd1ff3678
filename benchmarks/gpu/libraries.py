"""What libraries on a GPU make of the same layer: dense, and sparse where they can."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from benchmarks.gpu import device
from benchmarks.gpu.cases import Case
from tvm_sparse.comparison.gpu_times import reason
from tvm_sparse.ops.contractions.contraction import Contraction

Program = Callable[[], torch.Tensor]
Found = dict[str, Program]
"""Name -> program that returns the output, in our layout."""


def dense(case: Case, x: torch.Tensor, weight: torch.Tensor) -> Found:
    """Return the dense programs; ``weight`` is ``(features, columns)``, or ``(channels, taps)``."""
    if case.contraction.taps:
        return _convolutions(case, x, weight)
    found = {}
    if not x.dtype.is_floating_point:
        return _of_bytes(x, weight)
    for blas in ("cublas", "cublaslt"):
        for precision in ("highest", "high") if x.dtype == torch.float32 else ("highest",):
            name = blas + (" tf32" if precision == "high" else "")
            found[name] = product(x, weight, blas, precision)
    if len(x) == 1:
        row = x[0]
        found["mv"] = lambda: torch.mv(weight, row)[None]
    return found


def _of_bytes(x: torch.Tensor, weight: torch.Tensor) -> Found:
    """Return PyTorch's product of signed bytes, and the same in bfloat16, which holds any byte."""
    halves = product(x.bfloat16(), weight.bfloat16(), "cublas", "highest")
    whole = {"int_mm": lambda: torch._int_mm(x, weight.t())} if x.dtype == torch.int8 else {}
    return {"cublas bf16": halves, **whole}


def sparse(
    case: Case, x: torch.Tensor, weight: torch.Tensor, *, tune: bool
) -> tuple[Found, dict[str, str]]:
    """Return the sparse programs, and why others are missing.

    ``tune`` lets Triton's block kernel search its parameters: up to a minute a case.
    """
    blocks = "triton bsr tuned" if tune else "triton bsr"
    makers = {
        "cusparse csr": _csr,
        "cusparselt 2:4": _two_of_four,
        blocks: functools.partial(_triton_bsr, tune=tune),
    }
    found: Found = {}
    missing: dict[str, str] = {}
    if case.contraction.depthwise or case.pattern == "none":
        return found, missing
    for name, make in makers.items():
        try:
            found[name] = make(case, x, weight)
        # Any of these libraries may be missing or refuse a shape, in its own way.
        except Exception as error:
            missing[name] = reason(error)
    return working(found, missing), missing


def working(programs: Found, missing: dict[str, str]) -> Found:
    """Return the programs that run; write into ``missing`` why others do not."""
    found = {}
    for name, program in programs.items():
        try:
            program()
            device.current().wait()
            found[name] = program
        except Exception as error:
            missing[name] = reason(error)
    return found


def product(x: torch.Tensor, weight: torch.Tensor, blas: str, precision: str) -> Program:
    """Return a dense product by ``blas``, in the ``precision`` that PyTorch calls so."""

    def program() -> torch.Tensor:
        torch.backends.cuda.preferred_blas_library(blas)
        torch.set_float32_matmul_precision(precision)
        return functional.linear(x, weight)

    return program


def _csr(case: Case, x: torch.Tensor, weight: torch.Tensor) -> Program:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR")  # it is in beta, PyTorch says
        stored, columns = weight.to_sparse_csr(), x.t().contiguous()

    def program() -> torch.Tensor:
        return (stored @ columns).t()

    return program


def _triton_bsr(case: Case, x: torch.Tensor, weight: torch.Tensor, *, tune: bool) -> Program:
    if not case.pattern.startswith("block"):
        raise ValueError("only blocks")
    from torch.sparse._triton_ops import bsr_dense_addmm
    from torch.sparse._triton_ops_meta import tune_bsr_dense_addmm

    edge = int(case.pattern.split("x")[-1])
    stored, columns = weight.to_sparse_bsr((edge, edge)), x.t().contiguous()
    zero = torch.zeros(len(weight), len(x), dtype=x.dtype, device=x.device)
    if len(x) % 16:
        raise ValueError(f"needs a multiple of 16 rows, found {len(x)}")
    if tune:
        tune_bsr_dense_addmm(zero, stored, columns, store=True)
    return lambda: bsr_dense_addmm(zero, stored, columns, beta=0).t()


def _two_of_four(case: Case, x: torch.Tensor, weight: torch.Tensor) -> Program:
    """2:4 at the pattern's own values where they fit; its time is the same for any mask."""
    quads = (weight.reshape(len(weight), -1, 4) != 0).sum(-1)
    if int(quads.max()) > 2:
        raise ValueError("the mask is not 2:4")
    stored = torch.sparse.to_sparse_semi_structured(weight)
    return lambda: functional.linear(x, stored)


def filters(c: Contraction, weight: torch.Tensor) -> torch.Tensor:
    """Return the weight of a convolution as PyTorch has it; ours has columns in ``hwi`` order."""
    return weight.reshape(c.features, *c.taps, -1).movedim(-1, 1)


def window(c: Contraction) -> dict[str, Any]:
    """Return the options of PyTorch's convolution."""
    groups = c.features if c.depthwise else 1
    return {"stride": c.strides, "padding": c.borders, "dilation": c.dilation, "groups": groups}


def _convolutions(case: Case, x: torch.Tensor, weight: torch.Tensor) -> Found:
    """Return cuDNN in both layouts.

    Depthwise layers have the papers' unpruned sub-GEMMs as a batched product, too.
    """
    c = case.contraction
    kernel, options = filters(c, weight).contiguous(), window(c)
    last = x.permute(0, 3, 1, 2)
    first = last.contiguous()
    wide = kernel.to(memory_format=torch.channels_last)

    def convolved(image: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            out = functional.conv2d(image, values, **options)
        return out.permute(0, 2, 3, 1)

    found = {
        "cudnn nchw": lambda: convolved(first, kernel),
        "cudnn nhwc": lambda: convolved(last, wide),
    }
    return {**found, "unfold + bmm": _unfolded(case, first, weight)} if c.depthwise else found


def _unfolded(case: Case, x: torch.Tensor, weight: torch.Tensor) -> Program:
    """Diagonal-wise refactorization without pruning: groups of 32 channels, im2col, GEMM."""
    c = case.contraction
    channels, taps = weight.shape
    groups = -(-channels // 32)
    blocks = torch.zeros(groups, 32, 32, taps, dtype=x.dtype, device=x.device)
    index = torch.arange(channels, device=x.device)
    blocks[index // 32, index % 32, index % 32] = weight
    matrices = blocks.reshape(groups, 32, 32 * taps)
    rest = groups * 32 - channels

    def program() -> torch.Tensor:
        columns = functional.unfold(x, c.taps, c.dilation, c.borders, c.strides)
        columns = functional.pad(columns, (0, 0, 0, rest * taps))
        columns = columns.reshape(len(x), groups, 32 * taps, -1)
        out = torch.matmul(matrices, columns).reshape(len(x), groups * 32, -1)
        return out[:, :channels].reshape(len(x), channels, *c.lead[1:]).permute(0, 2, 3, 1)

    return program
