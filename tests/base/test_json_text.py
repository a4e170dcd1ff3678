"""JSON that somebody else wrote is read in one way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tvm_sparse.base import json_text

ROOT = Path(__file__).resolve().parents[2]


def test_documents_are_read():
    assert json_text.parsed('{"a": [1, null]}') == {"a": [1, None]}
    assert json_text.parsed(b"[1e5]") == [1e5]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1,]", "nul", "\x00", "1" * 5000, b"\xff\xfe\x00", b"\xff[]"),
        *("[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000),
    ],
    ids=range(11),
)
def test_whatever_is_wrong_is_a_value_error(text):
    with pytest.raises(ValueError):
        json_text.parsed(text)


def test_no_other_module_reads_json():
    folders = [ROOT / name for name in ("tvm_sparse", "frontends", "schedules")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    own = ROOT / "tvm_sparse" / "base" / "json_text.py"
    reads = re.compile(r"\bjson\.loads?\(")
    found = [p.name for p in files if p != own and reads.search(p.read_text(encoding="utf-8"))]
    assert found == []
