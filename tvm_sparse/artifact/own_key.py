"""A key that only this process holds: what it compiled itself runs under every policy."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from tvm_sparse_runtime import trust
from tvm_sparse_runtime.library import Library, load


def own_key() -> Any:
    """Return the private key that signs this process's own artifacts.

    None where nobody asks for signatures (:data:`tvm_sparse_runtime.trust.POLICY` is not set).
    """
    return None if os.environ.get(trust.POLICY) is None else _made()


def own_trust() -> list[bytes] | None:
    """Return the raw public key of :func:`own_key` in a list, None where nobody asks for it."""
    key = own_key()
    return None if key is None else [key.public_key().public_bytes_raw()]


def open_own(directory: Path, trusted: list[bytes] | None) -> Library:
    """Open an artifact that was exported with ``sign=own_key()``, whatever else is trusted.

    No other artifact gets in: ``trusted`` is what :func:`own_trust` gave, and there its signature
    and all of its content are checked.
    """
    return load(directory, verify=trusted is not None, trusted=trusted)


@functools.cache
def _made() -> Any:
    return trust.new_key()
