"""A release has a section of the changelog."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parent.parent / "tools" / "release_notes.py"
TEXT = """# Changelog

## Unreleased

- Later.

## 0.2.0 - 2027-01-31

### Added

- Second.

## [0.1.0] (2026-12-01)

- First.

## 0.0.1
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("release_notes", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "CHANGELOG.md").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(module, "CHANGELOG", tmp_path / "CHANGELOG.md")
    return module


@pytest.mark.parametrize(
    ("version", "notes"),
    [("v0.2.0", "### Added\n\n- Second.\n"), ("0.1.0", "- First.\n")],
)
def test_the_section_of_a_version(tool, capsys, version, notes):
    assert tool.main([version]) == 0
    assert capsys.readouterr().out == notes


@pytest.mark.parametrize("version", ["0.0.1", "0.1", "1.0.0"])
def test_a_version_without_one(tool, capsys, version):
    assert tool.main([version]) == 1
    assert f"has no section {version}" in capsys.readouterr().err


def test_wrong_usage(tool):
    assert tool.main([]) == 2
