"""One entry for every source: dispatch on its type, or on the suffix of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_sparse.errors import InputError

if TYPE_CHECKING:
    from tvm_sparse.frontends.model import Model

PICKLES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"}


def load(
    source: Any,
    example_inputs: Any = None,
    *,
    weights: str | Path | None = None,
    dynamic_batch: bool | tuple[int, int] = False,
) -> Model:
    """Import ``source`` as a Relax module with named weights.

    Parameters
    ----------
    source
        A ``torch.nn.Module``, a ``torch.export.ExportedProgram``, a path ending in ``.pt2`` or
        ``.onnx``, or a factory ``"pkg.module:function"``.
    example_inputs
        For a module or factory: a tensor, a sequence of positional arguments or a mapping of
        keyword ones. The other sources carry their own shapes.
    weights
        For a factory: the safetensors file to fill its module with.
    dynamic_batch
        For a module or factory: keep the leading extent symbolic; a pair bounds it.

    Raises
    ------
    InputError
        The source cannot be used, with what to do about it.
    """
    from tvm_sparse.frontends.exported import from_exported
    from tvm_sparse.frontends.torch import from_module

    opened = open_source(source, weights)
    import torch

    if isinstance(opened, torch.nn.Module):
        if example_inputs is None:
            raise InputError(
                f"model '{type(opened).__name__}'",
                "comes without example inputs",
                "a tensor, or a tuple or mapping of arguments",
                "pass them, or an ExportedProgram, which carries its own",
            )
        return from_module(opened, example_inputs, dynamic_batch=dynamic_batch)
    if dynamic_batch:
        raise InputError(
            "dynamic_batch",
            "is set for a model that is exported already",
            "an nn.Module",
            "make the batch dynamic in its export instead",
        )
    if isinstance(opened, Path):
        from tvm_sparse.frontends.onnx import load_onnx

        return load_onnx(opened)
    return from_exported(opened)


def open_source(source: Any, weights: str | Path | None = None) -> Any:
    """Return ``source`` as a module, an exported program, or the path of an ONNX file.

    Raises
    ------
    InputError
        It is none of these, or ``weights`` come without a factory.
    """
    import torch

    factory = isinstance(source, str) and ":" in source and not Path(source).exists()
    if weights is not None and not factory:
        raise InputError(
            "weights", "come without a factory", "a model 'pkg.module:function'", "name it"
        )
    if isinstance(source, torch.nn.Module | torch.export.ExportedProgram):
        return source
    if factory:
        from tvm_sparse.frontends.safetensors import load_factory

        return load_factory(source, None if weights is None else Path(weights))
    if not isinstance(source, str | Path):
        raise InputError(
            "model", f"is a {type(source).__name__}", "an nn.Module, ExportedProgram or path"
        )
    return _open_file(Path(source))


def _open_file(path: Path) -> Any:
    if path.suffix == ".pt2":
        from tvm_sparse.frontends.pt2 import load_pt2

        return load_pt2(path)
    if path.suffix == ".onnx":
        return path
    expected = "a .pt2 or .onnx file, or a factory 'pkg.module:function'"
    if path.suffix == ".safetensors":
        raise InputError(
            str(path), "holds weights only", expected, "name the factory and pass this as weights"
        )
    if path.suffix in PICKLES:
        raise InputError(
            str(path),
            "is a pickle, and reading one runs whatever code is inside",
            expected,
            "save a .pt2 with torch.export.save, or safetensors",
        )
    raise InputError(str(path), "is no model file", expected)
