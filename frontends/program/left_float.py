"""Which layers of a quantized program stay float, and why: kept in it, also in its file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import torch

from tvm_sparse.base import json_text

LEFT_FLOAT = "tvm_sparse.left_float"
"""Where a program has them, with their losses in bytes: the ``meta`` of its graph module, and the
``custom`` metadata of its first operator, which files keep."""

_TOLERANCE, _LOSSES = "tolerance", "losses"
_NAME = re.compile(r"[\w.\-]+")


def keep_left_float(
    program: torch.export.ExportedProgram, losses: Mapping[str, float], tolerance: float | None
) -> None:
    """Write into ``program`` which layers stay float, and the tolerance that they exceed."""
    program.graph_module.meta[LEFT_FLOAT] = dict(losses)
    if not losses:
        return
    first = next(node for node in program.graph.nodes if node.op == "call_function")
    kept = {_TOLERANCE: tolerance, _LOSSES: dict(losses)}
    first.meta["custom"] = {**first.meta.get("custom", {}), LEFT_FLOAT: kept}


def left_float(program: torch.export.ExportedProgram) -> dict[str, str]:
    """Return a phrase for each layer of ``program`` that stays float by the user's tolerance."""
    for node in program.graph.nodes:
        found = node.meta.get("custom", {}).get(LEFT_FLOAT)
        if found is not None:
            above = f" (tolerance {found[_TOLERANCE]:.1%})"
            return {n: _phrase(loss) + above for n, loss in found[_LOSSES].items()}
    return {}


def _phrase(loss: float) -> str:
    return f"left float: in bytes its output would change by {loss:.1%}"


def vetted_custom(text: Any) -> str:
    """Return what of a node's ``custom`` metadata in a file is known and plain, as JSON.

    It is empty if nothing is.
    """
    try:
        found = json_text.parsed(text)[LEFT_FLOAT]
        tolerance, losses = float(found[_TOLERANCE]), dict(found[_LOSSES])
        plain = all(_NAME.fullmatch(n) and math.isfinite(float(v)) for n, v in losses.items())
    except (ValueError, TypeError, KeyError, IndexError):
        return ""
    if not plain or not math.isfinite(tolerance):
        return ""
    kept = {_TOLERANCE: tolerance, _LOSSES: {n: float(v) for n, v in losses.items()}}
    return json.dumps({LEFT_FLOAT: kept})
