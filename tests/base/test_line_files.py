"""Files that are appended to are plain files: nothing waits, nothing is written elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tvm_sparse.base.line_files import appending, open_lines
from tvm_sparse.errors import InputError
from tvm_sparse.selection.times import FILE as TIMES
from tvm_sparse.selection.times import Times
from tvm_sparse.tuning.database import FILE as RECORDS
from tvm_sparse.tuning.database import Database

KINDS = {
    "link": lambda path: path.symlink_to(path.parent / "elsewhere"),
    "dangling": lambda path: path.symlink_to(path.parent / "nowhere"),
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    """Return a directory whose files of records and times are no plain files."""
    (tmp_path / "elsewhere").write_bytes(b"mine\n")
    for name in (RECORDS, TIMES):
        KINDS[request.param](tmp_path / name)
    yield tmp_path
    assert (tmp_path / "elsewhere").read_bytes() == b"mine\n"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("mode", ["rb", "a+b"])
def test_what_is_no_plain_file_is_refused(place, mode):
    with pytest.raises(InputError, match="no plain file"):
        open_lines(place / RECORDS, mode)


def test_plain_files(tmp_path):
    with open_lines(tmp_path / "a", "a+b") as file:
        file.write(b"1\n")
    with open_lines(tmp_path / "a", "rb") as file:
        assert file.read() == b"1\n"
    with pytest.raises(FileNotFoundError):
        open_lines(tmp_path / "b", "rb")


def test_a_database_says_so(place):
    with pytest.raises(InputError, match=r"records\.jsonl: no plain file"):
        Database(place)


def test_times_are_kept_in_memory_only(place):
    times = Times(place)
    times.put("a", {"dense": 1.0})
    assert times.get("a", {"dense"}) == {"dense": 1.0}
    assert Times(place).get("a", {"dense"}) is None


def test_lines_that_are_no_records_are_skipped(tmp_path):
    good = b'{"key": "a", "times": {"dense": 1.5}}'
    deep = b'{"key": "b", "times": ' + b"[" * 100_000
    huge = b'{"key": "c", "times": {"dense": 1' + b"0" * 400 + b"}}"
    odd = [b'{"key": "d", "times": {"dense": 1e999}}', b"\xff\xfe", b"null", b"[]", b'{"key": 1}']
    (tmp_path / TIMES).write_bytes(b"\n".join([deep, good, huge, *odd]))
    times = Times(tmp_path)
    assert times.get("a", {"dense"}) == {"dense": 1.5}
    assert all(times.get(key, {"dense"}) is None for key in "bcd")
    (tmp_path / RECORDS).write_bytes(b"\n".join([deep, good, huge, *odd, b""]))
    database = Database(tmp_path)
    assert (len(database), database.skipped) == (0, 8)


def test_a_place_that_cannot_be_written_is_one_error(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "x.jsonl", Path("/proc/nothing/x.jsonl")):
        with pytest.raises(InputError, match="cannot be written"), appending(place):
            pass
    with appending(tmp_path / "new" / "x.jsonl") as file:
        file.write(b"1\n")
    assert (tmp_path / "new" / "x.jsonl").read_bytes() == b"1\n"
