"""Where this machine keeps what was measured and compiled."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def cache_directory() -> Path:
    """Return the user's cache directory."""
    return platformdirs.user_cache_path("tvm-sparse")
