"""Files that platforms read: they parse, and say what the project's own files say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import tvm_sparse

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    ROOT / "CITATION.cff",
    ROOT / ".pre-commit-config.yaml",
    *sorted((ROOT / ".github").rglob("*.yml")),
]


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_parses(path):
    assert isinstance(read(path), dict)


def test_the_citation_names_this_version():
    assert read(ROOT / "CITATION.cff")["version"] == tvm_sparse.__version__


def test_the_workflow_covers_the_python_versions_and_calls_what_ci_calls():
    job = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["test"]
    assert job["steps"][-1] == {"run": ".ci/run"}
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    first = re.search(r'requires-python = ">=3\.(\d+)"', text)[1]
    assert job["strategy"]["matrix"]["python"][0] == f"3.{first}"


def test_the_form_for_bugs_asks_for_commands_that_exist():
    from tvm_sparse.cli import app

    known = {command.name for command in app.registered_commands}
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        for name in re.findall(r"tvm-sparse (\w+)", path.read_text(encoding="utf-8")):
            assert name in known
