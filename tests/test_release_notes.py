"""A release has a section of the changelog."""

from __future__ import annotations

import pytest

from tests import tools

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
    module = tools.load("release_notes")
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


def test_sections_of_the_changelog_are_short():
    """One line a change, under 60 lines a section: reasons and figures are in the notebook."""
    text = (tools.TOOLS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    for part in text.split("\n## ")[1:]:
        heading, *lines = part.splitlines()
        assert len(lines) < 60, heading
        for line in filter(None, lines):
            assert line.startswith(("### ", "- **")), line
            assert len(line) <= 120, line


@pytest.mark.parametrize("version", ["0.0.1", "0.1", "1.0.0"])
def test_a_version_without_one(tool, capsys, version):
    assert tool.main([version]) == 1
    assert f"has no section {version}" in capsys.readouterr().err


def test_wrong_usage(tool):
    assert tool.main([]) == 2
