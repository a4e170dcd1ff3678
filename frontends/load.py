"""One entry for every source: dispatch on its type, or on the suffix of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm_sparse.errors import InputError

if TYPE_CHECKING:
    from tvm_sparse.frontends.model import Model


def load(
    source: Any,
    example_inputs: Any = None,
    *,
    dynamic_batch: bool | tuple[int, int] = False,
) -> Model:
    """Import ``source``.

    Parameters
    ----------
    source
        A ``torch.nn.Module`` or a ``torch.export.ExportedProgram``.
    example_inputs
        For a module: a tensor, a sequence of positional arguments or a mapping of keyword ones.
    dynamic_batch
        For a module: keep the leading extent symbolic; a pair bounds it.

    Raises
    ------
    InputError
        The source cannot be used, with what to do about it.
    """
    import torch

    if isinstance(source, torch.export.ExportedProgram):
        from tvm_sparse.frontends.exported import from_exported

        return from_exported(source)
    if isinstance(source, torch.nn.Module):
        from tvm_sparse.frontends.torch import from_module

        if example_inputs is None:
            raise InputError(
                f"model '{type(source).__name__}'",
                "no example inputs",
                "a tensor, or a tuple or mapping of arguments",
                "pass them, or an ExportedProgram, which carries its own",
            )
        return from_module(source, example_inputs, dynamic_batch=dynamic_batch)
    raise InputError(
        "model",
        f"is a {type(source).__name__}",
        "an nn.Module, an ExportedProgram or a path",
    )
