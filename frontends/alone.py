"""One thread at a time where functions of PyTorch, or of a model, are exchanged for all threads."""

from __future__ import annotations

import threading

ALONE = threading.RLock()
"""Held by the thread that traces. Another one would find what this one exchanged, and would put
that back when it ends."""
