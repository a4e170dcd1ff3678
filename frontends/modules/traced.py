"""Traces of a module by PyTorch that follow what its code asks of open extents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch._dynamo import config

from tvm_sparse.frontends.alone import ALONE
from tvm_sparse.frontends.modules.followed_code import followed_code
from tvm_sparse.frontends.modules.kept_state import kept_state
from tvm_sparse.frontends.modules.open_axes import Call
from tvm_sparse.frontends.modules.tensor_lengths import TensorLengths
from tvm_sparse.frontends.program.asked_conditions import AskedConditions
from tvm_sparse.frontends.program.known_shapes import KnownShapes
from tvm_sparse.frontends.program.one_division import OneDivision
from tvm_sparse.frontends.program.whole_quotients import WholeQuotients


@contextmanager
def followed(
    module: nn.Module, forms: Callable[[], AbstractContextManager[Any]] = OneDivision
) -> Iterator[AskedConditions]:
    """Let traces of ``module`` keep extents open, in ``forms``; give the conditions they ask.

    One thread traces at a time.
    """
    with ALONE, forms(), WholeQuotients(), TensorLengths(), followed_code(module), KnownShapes():
        with AskedConditions() as asked:
            yield asked


def traced(
    module: nn.Module, call: Call, shapes: Any
) -> tuple[torch.export.ExportedProgram, AskedConditions]:
    """Return ``module`` as PyTorch exports it for ``call``, and the conditions that it asked.

    What PyTorch raises is raised. ``module`` keeps what it had before.
    """
    remembered = _unremembered() if shapes else nullcontext()
    with followed(module) as asked, kept_state(module), remembered:
        program = torch.export.export(module, *call, dynamic_shapes=shapes)
    return program, asked


def _unremembered() -> AbstractContextManager[Any]:
    """Let traces remember no shapes: with open extents PyTorch makes a result twice for that."""
    patched: AbstractContextManager[Any] = config.patch(fake_tensor_cache_enabled=False)
    return patched
