import os
import socket
from pathlib import Path

import pytest

from tvm_sparse_runtime import files
from tvm_sparse_runtime.errors import RuntimeArtifactError, SparseRuntimeError


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789")
    return tmp_path / "file"


def test_only_regular_files_are_opened(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    for name in ("link", "pipe", "socket", "."):
        with pytest.raises(RuntimeArtifactError, match="not a regular file"):
            with files.opened(tmp_path / name):
                pass
    with pytest.raises(FileNotFoundError), files.opened(tmp_path / "none"):
        pass


def test_digest_of_ranges(path):
    with files.opened(path) as descriptor:
        whole = files.sha256(descriptor)
        assert whole == "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"
        assert files.sha256(descriptor, (0, 3), (3, 10)) == whole
        assert files.sha256(descriptor, (0, 3), (4, 10)) != whole
        assert files.sha256(descriptor, (0, 1 << 60)) == whole


def test_names_never_come_back(path):
    with files.opened(path) as descriptor:
        names = [files.loadable_name(descriptor, path) for _ in range(300)]
        assert len(set(names)) == 300
        assert all(Path(name).stat().st_ino == path.stat().st_ino for name in names)
        assert max(map(len, names)) < 60
    assert files.loadable_name(descriptor, path) == str(path), "nothing is open: as without /proc"


def test_a_copy_in_memory_cannot_change(path):
    with files.opened(path) as source, files.in_memory(source, str(path)) as copy:
        path.write_bytes(b"")
        assert os.pread(copy, 20, 0) == b"0123456789"
        for change in (lambda: os.ftruncate(copy, 3), lambda: os.pwrite(copy, b"x", 0)):
            with pytest.raises(OSError, match="Operation not permitted"):
                change()


def test_no_copy_without_linux(path, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    with files.opened(path) as source, pytest.raises(SparseRuntimeError, match="expected Linux"):
        with files.in_memory(source, str(path)):
            pass
