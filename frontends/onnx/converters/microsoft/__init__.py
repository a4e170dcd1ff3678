"""Operators of onnxruntime's own domain, which its optimiser and its quantiser write into files."""

from __future__ import annotations

DOMAIN = "com.microsoft"
