"""Run mypy or import-linter on the packages as they install.

``schedules`` and ``frontends`` stand at the top level but install inside ``tvm_sparse``. Tools that
read files need that layout too, so this script makes it from symbolic links, in a folder a tool of
``build/tree``: both may run at a time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "tree"
CONFIG = str(ROOT / "pyproject.toml")
OTHERS = {
    "tvm_sparse_emulator": "emulator/tvm_sparse_emulator",
    "tvm_sparse_runtime": "python/tvm_sparse_runtime",
}
"""Distributions of their own, each with a ``pyproject.toml`` beside it."""

LINT_IMPORTS = f"""
import sys
sys.meta_path = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
sys.path.insert(0, "")
from importlinter.cli import lint_imports
sys.exit(lint_imports(config_filename={CONFIG!r}, no_cache=True, no_logo=True))
"""
"""Without the editable install's finder, which would answer before ``sys.path`` does."""

TOOLS = {
    "mypy": ["-m", "mypy", "--config-file", CONFIG, "--cache-dir", str(ROOT / ".mypy_cache")],
    "imports": ["-c", LINT_IMPORTS],
}


def stage(tree: Path) -> None:
    """Make ``tree`` anew: real directories, a link for each file of the packages."""
    settings = tomllib.loads(Path(CONFIG).read_text(encoding="utf-8"))
    shutil.rmtree(tree, ignore_errors=True)
    packages = settings["tool"]["scikit-build"]["wheel"]["packages"]
    for target, source in {**packages, **OTHERS}.items():
        for file in (ROOT / source).rglob("*.py*"):
            if file.suffix in (".py", ".typed"):
                link = tree / target / file.relative_to(ROOT / source)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(file)


def run(tool: str, tree: Path) -> subprocess.CompletedProcess[bytes]:
    """Run ``tool``, ``"mypy"`` or ``"imports"``, in ``tree``."""
    return subprocess.run([sys.executable, *TOOLS[tool]], cwd=tree, check=False)


def main(arguments: list[str]) -> int:
    """Run the tool named in ``arguments`` and return its exit status."""
    if len(arguments) != 1 or arguments[0] not in TOOLS:
        print(f"usage: staged_tree.py {'|'.join(TOOLS)}", file=sys.stderr)
        return 2
    (tool,) = arguments
    stage(TREE / tool)
    return run(tool, TREE / tool).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
