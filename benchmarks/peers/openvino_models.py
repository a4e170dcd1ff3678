"""Models as OpenVINO runs them: one call at a time, in the numbers that are asked for."""

from __future__ import annotations

from typing import Any


def openvino_model(model: Any, threads: int, precision: str = "f32") -> Any:
    """Return ``model``, a file or one of OpenVINO's own, compiled for the CPU.

    Floats are multiplied in ``precision``, OpenVINO's name of a type.
    """
    import openvino

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": precision,
    }
    return openvino.Core().compile_model(model, "CPU", config)
