"""Which dense runtimes end their process with a signal: each is run once in a process of its own.

python -m benchmarks.crashes NAME FILE INPUTS.npy THREADS
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np


def crashes(files: dict[str, Path], inputs: Path, threads: int) -> dict[str, str]:
    """Return the signal by the name of each runtime of ``files`` that one ends.

    Other failures are errors where the runtime is opened.
    """
    found = {name: crash(name, file, inputs, threads) for name, file in files.items()}
    return {name: ended for name, ended in found.items() if ended}


def crash(name: str, file: Path, inputs: Path, threads: int) -> str:
    """Return the signal that ends the runtime ``name`` on ``file``, empty if none does."""
    words = map(str, (name, file, inputs, threads))
    command = [sys.executable, "-m", "benchmarks.crashes", *words]
    done = subprocess.run(command, capture_output=True, check=False)
    return signal.Signals(-done.returncode).name if done.returncode < 0 else ""


def main(name: str, file: str, inputs: str, threads: str) -> None:
    """Open and run one runtime on the first input."""
    from benchmarks.peers.model_runtimes import OPENERS

    OPENERS[name](Path(file), np.load(inputs)[0], int(threads))()


if __name__ == "__main__":
    main(*sys.argv[1:])
