"""Converters of bit shifts, which TVM's PyTorch importer does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tvm import relax
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_SHIFTS = {
    "__lshift__": relax.op.left_shift,
    "bitwise_left_shift": relax.op.left_shift,
    "__rshift__": relax.op.right_shift,
    "bitwise_right_shift": relax.op.right_shift,
}


def shift_converters(importer: ExportedProgramImporter) -> dict[str, Callable[..., Any]]:
    """Return converters by operator name, as in the importer's own table."""

    def shift(operator: Callable[..., Any]) -> Callable[..., Any]:
        def convert(node: torch.fx.Node) -> Any:
            x, places = (importer.env[argument] for argument in node.args)
            return importer.block_builder.emit(operator(x, places))

        return convert

    return {f"{name}.Tensor": shift(operator) for name, operator in _SHIFTS.items()}
