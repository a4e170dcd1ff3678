"""One entry for every source: its front end opens it, one of two importers reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvm_sparse.base.interrupts import whole_imports
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.alone import ALONE
from tvm_sparse.frontends.asked import Asked
from tvm_sparse.frontends.files.part import Part, part_of
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.registry import front_end

Shape = Sequence[int | str]

PICKLES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"}


@whole_imports()
def load(
    source: Any,
    example_inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    weights: str | Path | None = None,
    dynamic_batch: bool | tuple[int, int] = False,
    dynamic_shapes: Any = None,
    shapes: Mapping[str, Shape] | Sequence[Shape] | None = None,
    bounds: Mapping[str, int | tuple[int, int | None]] | None = None,
    outputs: Sequence[str] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> Model:
    """Import ``source`` as a Relax module with named weights.

    Parameters
    ----------
    source
        A ``torch.nn.Module``, a ``torch.export.ExportedProgram``, a ``tvm.IRModule`` of Relax
        operators or a path ending in ``.pt2`` or ``.onnx``. Or a factory ``"pkg.module:function"``,
        a model that was loaded before, or what a front end of
        :data:`~tvm_sparse.frontends.registry.FRONT_ENDS` takes.
    example_inputs
        For a module or factory: a tensor, a sequence of positional arguments or a mapping of
        keyword ones. For an ONNX file: the same, whose shapes fix its open extents. The other
        sources carry their own shapes; examples must fit them.
    kwargs
        For a module or factory: keyword arguments besides.
    weights
        For a factory: the safetensors file to fill its module with.
    dynamic_batch
        For a module or factory, or an ONNX file with example inputs: keep the leading extent
        symbolic; a pair bounds it.
    dynamic_shapes
        For the same: which extents stay symbolic, as :func:`torch.export.export` takes it.
    shapes
        For an ONNX file: the shape of an input by its name, or the shapes of all in order. A
        number fixes an extent, a name leaves it open.
    bounds
        For an ONNX file: the largest size of an open extent by its name, or the smallest and the
        largest one.
    outputs
        For an ONNX file: names of values of its graph that the model returns instead of the file's
        outputs. What comes behind them is left out.
    constants
        For an ONNX file: inputs that are constants instead, by name.

    Raises
    ------
    InputError
        The source cannot be used, with what to do about it.
    """
    from tvm_sparse.frontends.examples import example_extents

    args, named = _arguments(example_inputs, kwargs)
    asked = Asked(args, named, dynamic_batch, dynamic_shapes, shapes or {}, dict(bounds or {}))
    given = example_inputs is not None or kwargs is not None
    with ALONE:
        model = _loaded(source, weights, part_of(outputs, constants), asked, given=given)
    extents = example_extents(model, args, named) if given else {}
    return replace(model, extents=extents) if extents else model


def _loaded(
    source: Any, weights: str | Path | None, part: Part, asked: Asked, *, given: bool
) -> Model:
    """Return the model of a source; ``given`` tells whether there are example inputs."""
    import torch

    found = front_end(source)
    if found is not None and found.shaped is not None and asked and weights is None:
        return found.shaped(source, part, asked)
    if asked.shapes or asked.bounds:
        role = "shapes" if asked.shapes else "bounds"
        raise InputError(role, "are given for a source that has none by name", "an .onnx file")
    opened = open_source(source, weights, part)
    if isinstance(opened, torch.nn.Module):
        if not given:
            raise InputError(
                f"model '{type(opened).__name__}'",
                "comes without example inputs",
                expected="a tensor, or a tuple or mapping of arguments",
                todo="pass them, or an ExportedProgram, which carries its own",
            )
        from tvm_sparse.frontends.modules.torch import from_module

        return from_module(
            opened,
            asked.args,
            asked.kwargs,
            dynamic_batch=asked.dynamic_batch,
            dynamic_shapes=asked.dynamic_shapes,
        )
    if asked.dynamic_batch or asked.dynamic_shapes is not None:
        raise InputError(
            "dynamic_batch" if asked.dynamic_batch else "dynamic_shapes",
            "is set for a model that is exported already",
            expected="an nn.Module",
            todo="make the shapes dynamic in its export instead",
        )
    if not isinstance(opened, Model):
        from tvm_sparse.frontends.program.exported import from_exported

        opened = from_exported(opened)
    if opened.uncast:
        from tvm_sparse.frontends.program.cuda_autocast import refuse_uncast

        refuse_uncast()
    if given:
        from tvm_sparse.frontends.examples import check_examples

        check_examples(opened, asked.args, asked.kwargs)
    return opened


def _arguments(
    examples: Any, kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return example inputs as positional and keyword arguments."""
    from tvm_sparse.frontends.example_inputs import arguments

    args, named = arguments(() if examples is None else examples)
    return args, {**named, **(kwargs or {})}


def open_source(source: Any, weights: str | Path | None = None, part: Part | None = None) -> Any:
    """Return ``source``, or a part, as a module, exported program or model, by its front end.

    Raises
    ------
    InputError
        No front end takes it, ``weights`` come without a factory, a part without names.
    """
    found = front_end(source)
    if weights is not None and (found is None or not found.weights):
        raise InputError(
            "weights",
            "come without a factory",
            expected="a model 'pkg.module:function'",
            todo="name it",
        )
    if found is None:
        raise _refusal(source)
    if not part:
        return found.open(source, None if weights is None else Path(weights))
    if found.open_part is None:
        raise InputError(
            "outputs" if part.outputs else "constants",
            "are given for a model whose values have no names",
            expected="an .onnx file",
            todo="let the model itself return or hold them",
        )
    return found.open_part(source, part)


def _refusal(source: Any) -> InputError:
    """Return why no front end takes ``source``."""
    if not isinstance(source, str | Path):
        expected, todo = "an nn.Module, ExportedProgram or path", ""
        found = f"is a {type(source).__name__}"
        if isinstance(source, type):
            found, todo = (
                f"is the class {source.__name__}",
                f"pass an instance, {source.__name__}(...)",
            )
        elif callable(source):
            todo = "call it in the forward method of an nn.Module"
        elif isinstance(source, Mapping):
            todo = "load these weights into an nn.Module with load_state_dict"
        return InputError("model", found, expected, todo)
    expected, suffix = (
        "a .pt2 or .onnx file, or a factory 'pkg.module:function'",
        Path(source).suffix,
    )
    if suffix == ".safetensors":
        todo = "name the factory and pass this as weights"
        return InputError(str(source), "holds weights only", expected=expected, todo=todo)
    if suffix in PICKLES:
        found = "is a pickle, and reading one runs whatever code is inside"
        todo = "save a .pt2 with torch.export.save, or safetensors"
        return InputError(str(source), found, expected=expected, todo=todo)
    return InputError(str(source), "is no model file", expected=expected)
