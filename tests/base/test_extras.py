"""Packages that only some commands need are asked for by name."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tvm_sparse.base import extras
from tvm_sparse.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_installed_is_let_through():
    extras.require("report", "--report")


def test_what_is_missing_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(extras._MODULES, "report", ("jinja2", "no_such_module"))
    with pytest.raises(InputError, match=re.escape("pip install 'tvm-sparse[report]'")) as caught:
        extras.require("report", "--report")
    assert caught.value.where == "--report"
    assert "no_such_module is not installed" in str(caught.value)


def test_every_extra_is_one_of_the_distribution():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert extras._MODULES.keys() <= tomllib.loads(text)["project"]["optional-dependencies"].keys()
