"""What must not be imported although an importer would: what no library can repeat or keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.corrected import layer_of, shown_value
from tvm_sparse.frontends.program.operator_names import operator_name

_TRAINING = {"native_dropout": 2, "dropout": 2, "rrelu_with_noise": 4}
"""Operators that are random in training only: the position of that argument."""


def refuse_random(program: torch.export.ExportedProgram) -> None:
    """Refuse operators that draw random numbers.

    Raises
    ------
    UnsupportedError
        One is used; the message names its layer.
    """
    for node in program.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if torch.Tag.nondeterministic_seeded not in node.target.tags or _harmless(node):
            continue
        raise UnsupportedError(
            layer_of(node),
            f"operator '{operator_name(node.target)}' draws random numbers",
            "a model whose outputs follow from its inputs",
            "export it in evaluation mode, or pass the random numbers as an input",
        )


def _harmless(node: Any) -> bool:
    """Whether a random operator is given arguments with which it is not."""
    name = node.target.__name__.partition(".")[0]
    position = _TRAINING.get(name)
    if position is not None:
        return len(node.args) > position and not node.args[position]
    return name.startswith(("_scaled_dot_product", "scaled_dot_product"))


def refuse_decided_shapes(program: torch.export.ExportedProgram) -> None:
    """Refuse tensors whose shape the values of others decide.

    Raises
    ------
    UnsupportedError
        There is one; the message names its layer and operator.
    """
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for part in value if isinstance(value, list | tuple) else (value,):
            if isinstance(part, torch.Tensor) and free_unbacked_symbols(part.shape):
                name, given = operator_name(node.target), shown_value(node)
                raise UnsupportedError(
                    layer_of(node),
                    f"operator '{name}' gives {given or 'tensors'}: values decide the shape",
                    "shapes that follow from the shapes of the inputs",
                    "compute all elements, and multiply by a mask those that do not count",
                )


_SINGLE = {
    *("erfc", "erfinv", "special_erfcx", "special_ndtri", "special_ndtr", "special_log_ndtr"),
    *(f"special_bessel_{name}" for name in ("j0", "j1", "y0", "y1")),
    *(f"special_{scaled}modified_bessel_k{n}" for scaled in ("", "scaled_") for n in (0, 1)),
    *("special_spherical_bessel_j0", "special_airy_ai"),
}
"""Functions that are computed to the accuracy of float32, whatever their type is."""


def refuse_inaccurate(program: torch.export.ExportedProgram) -> None:
    """Refuse functions of float64 that are not computed to its accuracy.

    ``program`` is as it was exported, before decompositions.

    Raises
    ------
    UnsupportedError
        There is one; the message names its layer and operator.
    """
    for node in program.graph.nodes:
        name = getattr(node.target, "__name__", "").partition(".")[0]
        value = node.meta.get("val")
        if name in _SINGLE and isinstance(value, torch.Tensor) and value.dtype == torch.float64:
            raise UnsupportedError(
                layer_of(node),
                f"operator '{operator_name(node.target)}' of float64"
                " would have the accuracy of float32",
                "float32",
                "compute it of x.float(), or use model.float()",
            )


_HELD = (InputKind.BUFFER, InputKind.PARAMETER, InputKind.CONSTANT_TENSOR)


def refuse_state(program: torch.export.ExportedProgram, roots: Sequence[fx.Node]) -> None:
    """Refuse models that write into tensors that they hold: a library keeps nothing between calls.

    ``program`` is as it was exported, before decompositions; its nodes write into ``roots``.

    Raises
    ------
    UnsupportedError
        There is such a tensor; the message names it.
    """
    signature = program.graph_signature
    changed = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
    written = [spec.target for spec in signature.output_specs if spec.kind in changed]
    held = {spec.arg.name: spec.target for spec in signature.input_specs if spec.kind in _HELD}
    written += [held[root.name] for root in roots if root.name in held]
    if written:
        raise UnsupportedError(
            f"tensor '{written[0]}'",
            "is changed by the model when it runs",
            "a model that keeps nothing between calls",
            "take the tensor (a cache of keys and values, a counter) as an input, and return it",
        )
