"""How products are computed while a network is trained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tvm_sparse.errors import InputError

Precision = Literal["auto", "float32", "bfloat16"]


def resolved(precision: Precision, model: nn.Module) -> Precision:
    """Return ``precision``, with a value of its own for ``"auto"``.

    That is bfloat16 on CPUs that multiply it faster than float32, and for networks in float32.
    """
    if precision not in ("auto", "float32", "bfloat16"):
        raise InputError("precision", repr(precision), "'auto', 'float32' or 'bfloat16'")
    if precision != "auto":
        return precision
    weights = [p for p in model.parameters() if p.is_floating_point()]
    plain = all(p.dtype == torch.float32 and p.device.type == "cpu" for p in weights)
    return "bfloat16" if plain and multiplies_bfloat16() else "float32"


def multiplies_bfloat16() -> bool:
    """Whether the CPU has instructions for products of bfloat16."""
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


@contextlib.contextmanager
def computing(precision: Precision, model: nn.Module) -> Iterator[None]:
    """Compute products in ``precision``, and attention on CPUs by products and a softmax.

    The backward pass of PyTorch's fused attention takes several times as long there.
    """
    device = next((p.device.type for p in model.parameters()), "cpu")
    with contextlib.ExitStack() as stack:
        if precision == "bfloat16":
            stack.enter_context(torch.autocast(device, torch.bfloat16))
        if device == "cpu":
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        yield
