"""One thread at a time where PyTorch traces: its tracers are the process's, and not a thread's."""

from __future__ import annotations

import threading

ALONE = threading.RLock()
"""Held by the thread that imports. Another one would find what this one exchanged in PyTorch or in
a model and put that back, and its comparison of two extents would be recorded in this trace."""
