"""Attention over an open length and one: its kernels are those of the length alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.opened.case import OpenCase
from tests.opened.judged import check, compiled, far
from tests.opened.layers import Token
from tests.random_sequences import Attention

MOST = 40


def attention(*before: nn.Module) -> OpenCase:
    """Return an attention behind some layers, of open batch and length."""
    torch.manual_seed(0)
    model = nn.Sequential(*before, Attention(32, 2, causal=False)).eval().requires_grad_(False)
    limits = {"batch": (1, 4), "steps": (1, MOST)}
    return OpenCase(model, [["batch", "steps", 32]], limits, {"batch": 2, "steps": 21}, exact=False)


def rules(case: OpenCase, library: Any) -> list[tuple[str, str]]:
    """Return products and softmax of the library, and the rule that scheduled each."""
    kernels = library.profile(*case.inputs(case.example), repeat=1)
    assert all(kernel.ours for kernel in kernels)
    wanted = ("matmul", "softmax")
    named = [(k.function.rstrip("0123456789"), k.rule) for k in kernels]
    return sorted((name, rule) for name, rule in named if name in wanted)


@pytest.mark.slow
def test_a_token_in_front():
    alone, behind = attention(), attention(Token(32, MOST))
    library = compiled(behind)
    check(behind, library, far(behind.model), 0)
    found = rules(behind, library)
    assert [name for name, _ in found] == ["matmul", "matmul", "softmax"]
    assert found == rules(alone, compiled(alone))
