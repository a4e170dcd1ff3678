"""Signatures: whose artifacts are opened. Checksums find damage; only a signature finds malice."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import RuntimeArtifactError, SparseRuntimeError, shown

SIGNATURE_FILE = "manifest.sig"
"""An Ed25519 signature (64 bytes) of the manifest, beside it."""

POLICY = "TVM_SPARSE_TRUSTED"
"""Environment variable with paths of public keys: where it is set, one of them must have signed."""

SIGNATURE_BYTES = 64
_RAW_KEY_BYTES = 32
_CONTEXT = b"tvm-sparse manifest\0"

Key = Any
"""A ``cryptography`` Ed25519 key, the path of a PEM file, or the 32 bytes of a raw key."""


def message(document: bytes) -> bytes:
    """Return what is signed for a manifest: no signature of anything else fits it."""
    return _CONTEXT + document


def trusted_keys(trusted: Sequence[Key] | None) -> list[Any] | None:
    """Return the public keys that count, None where every artifact is opened.

    Parameters
    ----------
    trusted
        What the caller trusts; None for what :data:`POLICY` names.

    Raises
    ------
    SparseRuntimeError
        If a key cannot be read, or the extra ``sign`` is not installed.
    """
    if trusted is None:
        policy = os.environ.get(POLICY)
        if policy is None:
            return None
        trusted = [Path(name) for name in policy.split(os.pathsep) if name]
    return [public_key(key) for key in trusted]


def check(document: bytes, signature: bytes | None, keys: Sequence[Any], where: str) -> None:
    """Refuse a manifest that none of ``keys`` signed.

    Raises
    ------
    RuntimeArtifactError
        It has no signature, or one that fits no trusted key.
    """
    expected = f"one of {len(keys)} trusted keys to have signed it"
    if signature is None:
        raise RuntimeArtifactError(
            where, "it has no signature", expected, "export it again with sign="
        )
    invalid = _cryptography("exceptions").InvalidSignature
    for key in keys:
        try:
            key.verify(signature, message(document))
        except invalid:
            continue
        return
    raise RuntimeArtifactError(
        where, "its signature fits no trusted key", expected, "do not load this artifact"
    )


def public_key(key: Key) -> Any:
    """Return a ``cryptography`` public key."""
    ed25519 = _cryptography("hazmat.primitives.asymmetric.ed25519")
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    if isinstance(key, bytes) and len(key) == _RAW_KEY_BYTES:
        return ed25519.Ed25519PublicKey.from_public_bytes(key)
    return _from_pem(key, "load_pem_public_key", ed25519.Ed25519PublicKey)


def private_key(key: Key) -> Any:
    """Return a ``cryptography`` private key."""
    ed25519 = _cryptography("hazmat.primitives.asymmetric.ed25519")
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key
    return _from_pem(key, "load_pem_private_key", ed25519.Ed25519PrivateKey, password=None)


def new_key() -> Any:
    """Return a private key that nobody else has."""
    return _cryptography("hazmat.primitives.asymmetric.ed25519").Ed25519PrivateKey.generate()


def _from_pem(key: Key, reader: str, kind: type, **options: Any) -> Any:
    """Return the key of the wanted kind in the PEM file ``key``."""
    what = kind.__name__.removeprefix("Ed25519")
    if not isinstance(key, (str, os.PathLike)):
        found = f"a {type(key).__name__}"
        raise SparseRuntimeError("key", found, f"an Ed25519 {what} or the path of its PEM file")
    try:
        read = getattr(_cryptography("hazmat.primitives.serialization"), reader)
        found_key = read(Path(key).read_bytes(), **options)
    except (OSError, ValueError, TypeError) as error:  # TypeError: it has a password
        raise SparseRuntimeError(
            str(key), f"cannot be read ({shown(str(error), 80)})", f"an Ed25519 {what} in PEM"
        ) from error
    if not isinstance(found_key, kind):
        raise SparseRuntimeError(str(key), f"a {type(found_key).__name__}", f"an Ed25519 {what}")
    return found_key


def _cryptography(module: str) -> Any:
    try:
        return importlib.import_module(f"cryptography.{module}")
    except ImportError as error:
        raise SparseRuntimeError(
            "signature",
            f"cannot be checked ({error})",
            "the package cryptography",
            "pip install 'tvm-sparse-runtime[sign]'",
        ) from error
