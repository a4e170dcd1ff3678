"""TVM's operator converters, corrected: products keep their precision, failures name the layer."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from tvm import relax, tirx
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from tvm_sparse.base.words import aside, said
from tvm_sparse.errors import InputError, SparseError
from tvm_sparse.frontends.converters import (  # noqa: F401 (they enter their converters)
    arithmetic_operators,
    experts,
    extents,
    lookups,
    matrix_operators,
    norms,
    padding,
    recurrences,
    reduction_operators,
    reshapes,
    resize,
    sampling,
    slices,
)
from tvm_sparse.frontends.converters.exact_products import exact_product
from tvm_sparse.frontends.converters.extents import decided, with_shape
from tvm_sparse.frontends.converters.operators import CONVERTERS
from tvm_sparse.frontends.converters.window_operators import max_pool_places, step_by_windows
from tvm_sparse.frontends.program.multiples import Importer
from tvm_sparse.frontends.program.operator_names import operator_name

Convert = Callable[[torch.fx.Node], Any]

_PRODUCTS = {
    *("linear.default", "mm.default", "addmm.default", "bmm.default", "matmul.default"),
    "convolution.default",
}
"""Operators whose converters always give float32, whatever the operands."""

_MAX_POOLS = {"max_pool2d_with_indices.default", "max_pool3d_with_indices.default"}

_POOLS = re.compile(r"(max|avg)_pool\dd(_with_indices)?\.default")

_BIASES = {"addmm.default": 0, "linear.default": 2, "convolution.default": 2}
"""Position of the operand that such a converter adds to its float32 product."""


def make_importer(
    program: torch.export.ExportedProgram, steps: Mapping[str, int] | None = None
) -> Importer:
    """Return an importer for the operators of ``program``.

    ``steps`` says of which number a symbol is a multiple, by its name.

    Raises
    ------
    InputError
        An operator has no converter; the message names its layer.
    """
    importer = Importer(steps)
    known = known_operators()
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target.__name__ not in known:
            raise InputError(
                layer_of(node),
                f"operator '{operator_name(node.target)}' cannot be imported",
                "operators that the page 'Supported operators' lists",
                "write the layer with other operators, or compile the model without it",
            )
    importer.convert_map = {
        name: _corrected(importer, name, _own(importer, name, importer.convert_map.get(name)))
        for name in known
    }
    return importer


def layer_of(node: torch.fx.Node) -> str:
    """Return the fully qualified name of the module that ``node`` was traced in."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = _ROOT.sub("", stack[-1][0]) if stack else ""
    return f"layer '{path}'" if path and not path.startswith("_empty") else "model"


_ROOT = re.compile(r"^L\['\w+'\]\.?")
"""What Dynamo calls the module that is compiled, before the names inside of it."""


@functools.cache
def known_operators() -> frozenset[str]:
    """Return the names of all operators that have a converter."""
    return frozenset({*ExportedProgramImporter().convert_map, *CONVERTERS})


def _own(importer: ExportedProgramImporter, name: str, stock: Convert | None) -> Convert:
    """Return our converter of the operator ``name`` where it has one, else TVM's."""

    def convert(node: torch.fx.Node) -> Any:
        if _POOLS.fullmatch(name):
            step_by_windows(node)
        own = CONVERTERS.get(name)
        result = None if own is None else own(importer, node)
        if result is None and stock is not None:
            result = stock(node)
        result = decided(importer, node, result)
        return max_pool_places(importer, node, result) if name in _MAX_POOLS else result

    return convert


def _corrected(importer: ExportedProgramImporter, name: str, convert: Convert) -> Convert:
    """Wrap the converter of the operator ``name``."""

    @functools.wraps(convert)
    def converted(node: torch.fx.Node) -> Any:
        try:
            product = functools.partial(_product, importer, name, convert=convert)
            result = with_shape(importer, node, product if name in _PRODUCTS else convert)
        except SparseError:
            raise
        except Exception as error:
            raise _refused(node, error) from error
        _check(node, name, node.meta.get("val"), getattr(result, "ty", None))
        return result

    return converted


def _refused(node: torch.fx.Node, error: Exception) -> InputError:
    """Return what to tell of an operator whose converter fails: its open axes, if it has any."""
    where, operator = layer_of(node), f"operator '{operator_name(node.target)}'"
    own = said(error) if isinstance(error, ValueError | AssertionError | RuntimeError) else ""
    axes = [text for arg in node.args if (text := _open_axes(arg))]
    if axes and not own:
        return InputError(
            where,
            f"{operator} cannot be imported with {', '.join(axes)} open",
            "one size of each",
            "leave these axes out of dynamic_shapes, or fix them by --shape",
        )
    given = ", ".join(text for arg in node.args if (text := shown_value(arg)))
    return InputError(
        where,
        f"{operator} cannot be imported{aside(own or f'of {given}')}",
        "a use of it that the page 'Supported operators' lists",
        "write the layer with other operators, or compile the model without it",
    )


def _open_axes(argument: Any) -> str:
    """Return which axes of a tensor are open; nothing of anything else."""
    value = argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument
    shape = value.shape if isinstance(value, torch.Tensor) else ()
    axes = [str(axis) for axis, extent in enumerate(shape) if not isinstance(extent, int)]
    return f"axis {' and '.join(axes)} of {shown_value(value)}" if axes else ""


def shown_value(argument: Any) -> str:
    """Return the type and shape of a tensor, or a constant; nothing of anything else."""
    value = argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument
    if isinstance(value, torch.Tensor):
        extents = ", ".join(str(e) if isinstance(e, int) else "?" for e in value.shape)
        return f"{str(value.dtype).removeprefix('torch.')}[{extents}]"
    return repr(value) if isinstance(value, bool | int | float | str | None) else ""


def _check(node: torch.fx.Node, name: str, wanted: Any, found: Any) -> None:
    """Refuse a conversion to another type than PyTorch's: its values would be wrong too.

    The elements of a tuple are checked where they are taken out of it.
    """
    if not isinstance(wanted, torch.Tensor) or not isinstance(found, relax.TensorType):
        return
    dtype = str(wanted.dtype).removeprefix("torch.")
    shape = list(wanted.shape)
    same = found.shape is None or (
        len(found.shape) == len(shape)
        and all(_may_equal(a, b) for a, b in zip(found.shape, shape, strict=True))
    )
    if not same or str(found.dtype) != dtype:
        raise InputError(
            layer_of(node),
            f"operator '{operator_name(node.target)}' was converted to {found}",
            f"{dtype}{shape}",
            "TVM's importer gets this use of it wrong; write it with other operators",
        )


def _may_equal(found: Any, wanted: Any) -> bool:
    """Whether two extents can be equal; a symbolic one may be anything."""
    if not isinstance(found, tirx.IntImm) or not isinstance(wanted, int):
        return True
    return int(found) == wanted


def _check_operands(node: torch.fx.Node) -> None:
    """Refuse a product of two types, which PyTorch refuses when it runs and not when it traces."""
    given = [arg for arg in node.args if isinstance(arg, torch.fx.Node)]
    dtypes = [str(arg.meta["val"].dtype).removeprefix("torch.") for arg in given]
    if len(set(dtypes)) > 1:
        raise InputError(
            layer_of(node),
            f"multiplies {dtypes[0]} by {next(d for d in dtypes if d != dtypes[0])}",
            "inputs and weights of one type",
            "cast the inputs, x.to(model.weight.dtype), or the model, model.to(x.dtype)",
        )


def _product(
    importer: ExportedProgramImporter, name: str, node: torch.fx.Node, convert: Convert
) -> Any:
    """Convert a product: half precision is summed, and its bias added, in float32, then rounded."""
    _check_operands(node)
    dtype = str(node.meta["val"].dtype).removeprefix("torch.")
    if dtype == "float32":
        return convert(node)
    if dtype not in ("float16", "bfloat16"):
        return exact_product(importer.env, importer.block_builder.emit, node, layer_of(node))
    position = _BIASES.get(name, len(node.args))
    bias = node.args[position] if position < len(node.args) else None
    kept = importer.env.get(bias)
    if kept is not None:
        importer.env[bias] = importer.block_builder.emit(relax.op.astype(kept, "float32"))
    try:
        result = convert(node)
    finally:
        if kept is not None:
            importer.env[bias] = kept
    if result.ty.dtype == dtype:
        return result
    return importer.block_builder.emit(relax.op.astype(result, dtype))
