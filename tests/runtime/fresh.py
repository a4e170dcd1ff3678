"""Run a few lines of Python as a deployment machine would: in a new, empty process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def run(
    code: str, *arguments: Any, timeout: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``code`` without any of the variables that the test suite sets for itself.

    It may take ``timeout`` seconds.
    """
    ours = ("TVM", "OMP", "PYTEST", "COV")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        env={**kept, **environment},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
