"""Options that modules and ONNX files are quantized with."""

from __future__ import annotations

from tvm_sparse.errors import InputError

WHERE = "quantize"

MODES = ("static", "dynamic")
"""When scales of activations are found: from calibration data, or when the network runs."""


def check_options(activations: str, tolerance: float | None) -> None:
    """Refuse an unknown mode, and a tolerance that is no positive number."""
    if activations not in MODES:
        raise InputError(WHERE, f"got activations '{activations}'", " or ".join(MODES))
    if tolerance is not None and not tolerance > 0:
        raise InputError(WHERE, f"got a tolerance of {tolerance}", "a number above zero")
