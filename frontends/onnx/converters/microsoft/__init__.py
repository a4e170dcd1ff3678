"""Operators of onnxruntime's own domain, which its optimiser and its quantizer write into files."""

from __future__ import annotations

DOMAIN = "com.microsoft"
