"""What PyTorch's exporter must be told about Hugging Face's classes."""

from __future__ import annotations

import contextlib
import sys


def register_caches() -> None:
    """Let key-value caches of transformers, if it is in use, be arguments and results."""
    if "transformers.cache_utils" not in sys.modules:
        return
    with contextlib.suppress(ImportError):  # releases before 4.50 have no such function
        from transformers.integrations import executorch

        executorch.register_dynamic_cache_export_support()
