"""Extents in ONNX files, as exporters write them."""

from __future__ import annotations

from typing import Any


def fixed_extent(dim: Any) -> int | None:
    """Return the extent of a ``TensorShapeProto.Dimension``, None if it is open.

    Open ones have a name, or nothing; some exporters write -1.
    """
    known = dim.HasField("dim_value") and dim.dim_value >= 0
    return int(dim.dim_value) if known else None


def said(dim: Any) -> int | str | None:
    """Return a fixed extent, or the name of an open one if it has one."""
    fixed = fixed_extent(dim)
    return (dim.dim_param or None) if fixed is None else fixed
