import stat
from pathlib import Path

import pytest

from tests.runtime import fresh
from tvm_sparse.artifact import staging
from tvm_sparse.artifact.staging import staged


def tree(root):
    """Return every file below ``root`` with its text."""
    return {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.is_file()}


def write(place, text):
    (place / "file").write_text(text)


def test_new_directory(tmp_path):
    with staged(tmp_path / "deep" / "er" / "a") as place:
        write(place, "1")
        assert not (tmp_path / "deep" / "er" / "a").exists()
    assert tree(tmp_path) == {"deep/er/a/file": "1"}
    (tmp_path / "plain").mkdir()
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "plain", tmp_path / "deep/er/a")}
    assert len(modes) == 1, "others may read an artifact as any other directory"


@pytest.mark.parametrize("exchange", [True, False])
def test_existing_directory_is_replaced(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(staging, "_RENAME_EXCHANGE", 1 << 20)
    for text in "12":
        with staged(tmp_path / "a") as place:
            write(place, text)
            (place / text).write_text("")
    assert tree(tmp_path) == {"a/file": "2", "a/2": ""}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_error_leaves_the_old_one_or_nothing(tmp_path, error):
    for expected in ({}, {"a/file": "1"}):
        with pytest.raises(error), staged(tmp_path / "a") as place:
            write(place, "unfinished")
            raise error
        assert tree(tmp_path) == expected
        with staged(tmp_path / "a") as place:
            write(place, "1")


def test_failed_replacement_brings_the_old_one_back(tmp_path, monkeypatch):
    with staged(tmp_path / "a") as place:
        write(place, "1")
    monkeypatch.setattr(staging, "_RENAME_EXCHANGE", 1 << 20)
    original = staging.Path.rename

    def fails(self, target):
        if self.name.startswith(".a.partial-") and not self.name.endswith("-old"):
            raise OSError("disk is gone")
        return original(self, target)

    monkeypatch.setattr(staging.Path, "rename", fails)
    with pytest.raises(OSError, match="disk is gone"), staged(tmp_path / "a") as place:
        write(place, "2")
    assert tree(tmp_path) == {"a/file": "1"}


KILLED = """
import os, pathlib, signal, sys
sys.path.insert(0, sys.argv[3])
import staging
when, directory = sys.argv[1], pathlib.Path(sys.argv[2])
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
if when == "after switch":
    replace = staging._replace
    staging._replace = lambda *names: (replace(*names), die())
elif when == "before switch":
    staging._replace = die
with staging.staged(directory) as place:
    (place / "file").write_text("2")
    if when == "while writing":
        die()
"""


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("when", ["while writing", "before switch", "after switch"])
def test_killed_process(tmp_path, when, existing):
    directory = tmp_path / "a"
    if existing:
        with staged(directory) as place:
            write(place, "1")
    folder = Path(staging.__file__).parent
    assert fresh.run(KILLED, when, directory, folder).returncode == -9
    old = {"file": "1"} if existing else {}
    assert tree(directory) == ({"file": "2"} if when == "after switch" else old)
    with staged(directory) as place:
        write(place, "3")
    assert tree(tmp_path) == {"a/file": "3"}, "the next export cleans up"


def test_exports_at_the_same_time_leave_each_other_alone(tmp_path):
    with staged(tmp_path / "a") as first:
        write(first, "1")
        with staged(tmp_path / "a") as second:
            write(second, "2")
        assert tree(tmp_path / "a") == {"file": "2"}
    assert tree(tmp_path) == {"a/file": "1"}


@pytest.mark.parametrize("name", ["a[1].tvms", "*", "?", "[!x]", "a b", "-f"])
def test_what_a_killed_export_left_is_removed_whatever_the_name(tmp_path, name):
    (tmp_path / f".{name}.partial-0123").mkdir()
    (tmp_path / ".other.partial-0123").mkdir()
    with staged(tmp_path / name) as place:
        write(place, "1")
    assert {path.name for path in tmp_path.iterdir()} == {name, ".other.partial-0123"}
