"""Only what a trusted key signed is opened, where keys are trusted."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, x25519

from tests.artifact.programs import linear
from tests.runtime import native
from tvm_sparse_runtime import RuntimeArtifactError, SparseRuntimeError, library, load, trust
from tvm_sparse_runtime.manifest import FILE_NAME

KEY = ed25519.Ed25519PrivateKey.generate()
OTHER = ed25519.Ed25519PrivateKey.generate().public_key()
X = np.ones((2, 64), "float32")


def private_pem(key) -> bytes:
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, plain)


def public_pem(key) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form)


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signed")
    (folder / "key.pem").write_bytes(private_pem(KEY))
    (folder / "public.pem").write_bytes(public_pem(KEY.public_key()))
    linear().export(folder / "a.tvms", sign=folder / "key.pem")
    return folder / "a.tvms"


def test_keys_of_every_sort(signed):
    key = KEY.public_key()
    for form in (key, key.public_bytes_raw(), signed.parent / "public.pem"):
        for ours, theirs in zip(
            load(signed, trusted=[OTHER, form])(X), load(signed)(X), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("keys", [[], [OTHER]])
def test_nobody_trusted_signed_it(signed, keys):
    with pytest.raises(RuntimeArtifactError, match="its signature fits no trusted key"):
        load(signed, trusted=keys)


def test_an_artifact_without_signature(linear_artifact):
    with pytest.raises(RuntimeArtifactError, match="it has no signature"):
        load(linear_artifact, trusted=[KEY.public_key()])


@pytest.mark.parametrize("damage", [b"", b"x" * 63, b"x" * 64, b"x" * 65])
def test_a_damaged_signature(signed, tmp_path, damage):
    copy = shutil.copytree(signed, tmp_path / "a.tvms")
    (copy / trust.SIGNATURE_FILE).write_bytes(damage)
    with pytest.raises(RuntimeArtifactError, match="signature"):
        load(copy, trusted=[KEY.public_key()])
    load(copy)


def test_a_signature_is_of_one_manifest(signed, linear_artifact, tmp_path):
    copy = shutil.copytree(linear_artifact, tmp_path / "a.tvms")
    shutil.copy(signed / trust.SIGNATURE_FILE, copy)
    with pytest.raises(RuntimeArtifactError, match="fits no trusted key"):
        load(copy, trusted=[KEY.public_key()])
    (copy / trust.SIGNATURE_FILE).write_bytes(KEY.sign((copy / FILE_NAME).read_bytes()))
    with pytest.raises(RuntimeArtifactError, match="fits no trusted key"):
        load(copy, trusted=[KEY.public_key()])


def test_nothing_is_opened_that_is_not_signed(signed, monkeypatch):
    monkeypatch.setattr(library.engine, "open_library", lambda name: pytest.fail("opened"))
    with pytest.raises(RuntimeArtifactError):
        load(signed, trusted=[OTHER])


def test_the_library_is_copied_before_it_is_checked(signed, monkeypatch):
    opened = []

    def open_library(name):
        opened.append(Path(name).stat().st_ino)
        return original(name)

    original = library.engine.open_library
    monkeypatch.setattr(library.engine, "open_library", open_library)
    load(signed, trusted=[KEY.public_key()])
    load(signed, trusted=[KEY.public_key()], copy=False)
    file = next(signed.glob("*.so")).stat().st_ino
    assert [number == file for number in opened] == [False, True]


def test_the_policy_of_the_environment(signed, linear_artifact, tmp_path, monkeypatch):
    (tmp_path / "other.pem").write_bytes(public_pem(OTHER))
    both = f"{tmp_path / 'other.pem'}:{signed.parent / 'public.pem'}"
    monkeypatch.setenv(trust.POLICY, both)
    load(signed)
    with pytest.raises(RuntimeArtifactError, match="it has no signature"):
        load(linear_artifact)
    status, _ = native.opened(signed)
    assert (status, "checked from Python only" in native.last_error()) == (1, True)
    monkeypatch.setenv(trust.POLICY, "")
    with pytest.raises(RuntimeArtifactError, match="one of 0 trusted keys"):
        load(signed)


def test_weights_must_be_verified_too(signed):
    with pytest.raises(SparseRuntimeError, match="True where keys are trusted"):
        load(signed, trusted=[KEY.public_key()], verify=False)


def test_what_is_no_key(tmp_path):
    wrong = x25519.X25519PrivateKey.generate()
    (tmp_path / "private.pem").write_bytes(private_pem(wrong))
    (tmp_path / "public.pem").write_bytes(public_pem(wrong.public_key()))
    (tmp_path / "text.pem").write_text("no key")
    for read, name in ((trust.private_key, "private.pem"), (trust.public_key, "public.pem")):
        with pytest.raises(SparseRuntimeError, match="expected an Ed25519 P"):
            read(tmp_path / name)
        for other in (tmp_path / "text.pem", tmp_path / "none.pem", 3, b"short"):
            with pytest.raises(SparseRuntimeError, match="expected an Ed25519 P"):
                read(other)


def test_without_the_extra(monkeypatch, signed):
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(SparseRuntimeError, match=r"tvm-sparse-runtime\[sign\]"):
        load(signed, trusted=[OTHER])


def test_without_proc_nothing_is_opened_by_name(signed, monkeypatch):
    monkeypatch.setattr(library.verification.files, "loadable_name", lambda _, path: str(path))
    with pytest.raises(RuntimeArtifactError, match="which another may take"):
        load(signed, trusted=[KEY.public_key()])
