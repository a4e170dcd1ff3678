"""Everything README.md shows is run, in order, in an empty directory."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import tools
from tvm_sparse.cli import app

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks() -> list[tuple[str, str]]:
    """Return language and text of every fenced block, in order."""
    return [(m[1], m[2]) for m in BLOCK.finditer(README)]


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def _call(line: str) -> str:
    """Return what a line that starts with ``tvm-sparse`` prints; it runs in this process."""
    done = CliRunner().invoke(app, shlex.split(line)[1:])
    assert done.exit_code == 0, f"{line}\n{done.output}"
    return done.stdout


def test_python_and_commands_work(tmp_path, monkeypatch):
    """One block builds on the files of the one before; the second one has a process of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tvm-sparse"])
    python = [text for language, text in blocks() if language == "python"]
    shell = "\n".join(text for language, text in blocks() if language == "sh")
    exec(python[0], {"__name__": "__main__"})
    for text in python[1:]:
        _run([sys.executable, "-W", "error", "-c", text], tmp_path)
    lines = [line for line in shell.splitlines() if line.startswith("tvm-sparse ")]
    for line in lines[:-1]:
        _call(line)
    _run(["sh", "-c", lines[-1]], tmp_path)
    assert len(python) >= 2
    assert len(lines) >= 3


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_exist(document):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    text = (ROOT / document).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
    assert named
    assert named <= targets


def test_links_point_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        prose = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)#]+)\)", prose):
            if "://" not in link:
                assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_commands_of_the_documents_parse():
    """Each `tvm-sparse` line of docs/cli.md names commands and options that exist."""
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("tvm-sparse ")]
    assert lines
    helps: dict[str, str] = {}
    for line in lines:
        _, command, *rest = shlex.split(line)
        helps[command] = helps.get(command) or _call(f"tvm-sparse {command} --help")
        for option in (word for word in rest if word.startswith("-")):
            assert re.search(rf"{option}\b", helps[command]), f"{line}: {option}"


def test_the_page_of_commands_is_up_to_date():
    module = tools.load("cli_page")
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.page(text, module.commands()) == text, "run tools/cli_page.py"


def test_figures_come_from_the_results():
    module = tools.load("readme_figures")
    assert module.refreshed(README) == README, "run tools/readme_figures.py"


def test_every_written_page_is_listed():
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").as_posix()
        if name != "README.md" and not name.startswith("performance/"):
            assert f"({name})" in listed, f"docs/README.md does not list {name}"
