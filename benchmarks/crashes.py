"""Which dense runtimes end their process with a signal: each is run once in a process of its own.

python -m benchmarks.crashes NAME FILE INPUT.npy THREADS
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np


def crashes(files: dict[str, Path], x: Path, threads: int) -> dict[str, str]:
    """Return the signal by the name of each runtime of ``files`` that one ends.

    Other failures are errors where the runtime is opened.
    """
    found = {name: crash(name, file, x, threads) for name, file in files.items()}
    return {name: ended for name, ended in found.items() if ended}


def crash(name: str, file: Path, x: Path, threads: int) -> str:
    """Return the signal that ends the runtime ``name`` on ``file``, empty if none does."""
    command = [sys.executable, "-m", "benchmarks.crashes", name, str(file), str(x), str(threads)]
    done = subprocess.run(command, capture_output=True, check=False)
    return signal.Signals(-done.returncode).name if done.returncode < 0 else ""


def main(name: str, file: str, x: str, threads: str) -> None:
    """Open and run one runtime."""
    from benchmarks.model_runtimes import OPENERS

    OPENERS[name](Path(file), np.load(x), int(threads))()


if __name__ == "__main__":
    main(*sys.argv[1:])
