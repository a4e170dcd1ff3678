import json
import os

import pytest

from tests.runtime import manifests
from tests.runtime.manifests import verified_manifest
from tvm_sparse_runtime import verification
from tvm_sparse_runtime.errors import RuntimeArtifactError
from tvm_sparse_runtime.manifest import FILE_NAME, Weight

LIBRARY = manifests.manifest().library
WEIGHTS = range(4096, 4096 + 65)


@pytest.fixture
def artifact(tmp_path):
    return manifests.write(tmp_path / "a.tvms")


def assert_refused(directory, *words, **options):
    with pytest.raises(RuntimeArtifactError) as caught:
        verified_manifest(directory, **options)
    for word in words:
        assert word in str(caught.value)


def rewrite(artifact, **changes):
    (artifact / FILE_NAME).write_bytes(manifests.manifest(**changes).to_bytes())


def test_sound(artifact):
    assert verified_manifest(artifact) == manifests.manifest()


def test_link_to_a_sound_directory(artifact, tmp_path):
    (tmp_path / "link").symlink_to(artifact)
    assert verified_manifest(tmp_path / "link") == manifests.manifest()


def test_no_artifact_there(tmp_path):
    assert_refused(tmp_path / "none", "there is no such directory")
    (tmp_path / "file").write_text("")
    assert_refused(tmp_path / "file", "not a directory")
    (tmp_path / "empty").mkdir()
    assert_refused(tmp_path / "empty", FILE_NAME, "No such file")


@pytest.mark.parametrize("document", [b"", b"\x7fELF", b"{}", b"[1]", b'{"format": 1}'])
def test_manifest_is_none(tmp_path, document):
    assert_refused(manifests.write(tmp_path / "a", document), FILE_NAME)


def test_huge_manifest_is_not_read(artifact):
    os.truncate(artifact / FILE_NAME, 1 << 40)
    assert_refused(artifact, "1099511627776 bytes")


def test_missing_extra_and_linked_files(artifact, tmp_path):
    (artifact / "notes.txt").write_text("")
    assert_refused(artifact, "'notes.txt' does not belong")
    (artifact / "notes.txt").rename(tmp_path / "notes.txt")
    (artifact / "more").mkdir()
    assert_refused(artifact, "'more' does not belong")
    (artifact / "more").rmdir()
    (artifact / LIBRARY).rename(tmp_path / "outside.so")
    assert_refused(artifact, f"{LIBRARY}' is missing")
    (artifact / LIBRARY).symlink_to(tmp_path / "outside.so")
    assert_refused(artifact, "not a regular file", "--dereference")
    (artifact / LIBRARY).unlink()
    os.mkfifo(artifact / LIBRARY)
    assert_refused(artifact, "not a regular file")


@pytest.mark.parametrize("hashes", [True, False])
@pytest.mark.parametrize("size", [0, 1, len(manifests.CONTENT) - 1, len(manifests.CONTENT) + 1])
def test_wrong_size(artifact, size, hashes):
    os.truncate(artifact / LIBRARY, size)
    assert_refused(artifact, f"{size} bytes", hashes=hashes)


def test_flipped_bit(artifact):
    content = bytearray(manifests.CONTENT)
    content[WEIGHTS.start + 10] ^= 4
    (artifact / LIBRARY).write_bytes(content)
    assert_refused(artifact, "SHA-256")
    assert verified_manifest(artifact, hashes=False) == manifests.manifest()


@pytest.mark.parametrize("copy", [True, False])
def test_without_hashes_all_but_the_weights_is_checked(artifact, copy):
    sound, path = manifests.CONTENT, artifact / LIBRARY
    for position in {*range(0, len(sound), 37), *range(64)} - set(WEIGHTS):
        path.write_bytes(sound[:position] + bytes([sound[position] ^ 1]) + sound[position + 1 :])
        assert_refused(artifact, LIBRARY, hashes=False, copy=copy)


def test_unreadable(artifact, monkeypatch):
    def deny(path, *_, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(verification, "_check_file", deny)
    assert_refused(artifact, LIBRARY, "Permission denied")


def test_checks_come_in_an_order_that_helps(artifact):
    """Another format or version explains itself even if files are wrong too."""
    body = json.loads((artifact / FILE_NAME).read_bytes())
    (artifact / LIBRARY).unlink()
    (artifact / FILE_NAME).write_bytes(json.dumps({**body, "format_version": 9}).encode())
    assert_refused(artifact, "format version 9")


def test_weights_beyond_the_section(artifact):
    weights = (Weight("w", "float32", (16,), 0), Weight("b", "int8", (2,), 64))
    loaded = manifests.manifest(weights=weights)
    (artifact / LIBRARY).unlink()
    (artifact / loaded.library).write_bytes(manifests.content(loaded))
    (artifact / FILE_NAME).write_bytes(loaded.to_bytes())
    assert_refused(artifact, "weight b: ends at 66; expected a section of 65 bytes")
