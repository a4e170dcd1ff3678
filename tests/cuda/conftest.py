"""A CUDA driver and runtime that write down what they are asked to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tvm_sparse_emulator import stand_in


@dataclass(frozen=True)
class Launch:
    """One kernel launch: name, grid, block, bytes of dynamic shared memory."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int


class FakeCuda:
    """Runs Python code in a process whose CUDA is the fake one, and reads its log."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def run(self, code: str) -> object:
        """Return what ``code`` prints as JSON."""
        self.log.unlink(missing_ok=True)
        variables = stand_in.environment(log=self.log)
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def lines(self, first: str) -> list[list[str]]:
        """Return the words of every line of the log that begins with ``first``."""
        text = self.log.read_text(encoding="utf-8") if self.log.exists() else ""
        return [words for line in text.splitlines() if (words := line.split())[0] == first]

    def launches(self) -> list[Launch]:
        """Return all launches of kernels in order, those of a capture too."""
        kernels = [words for words in self.lines("launch") if len(words) > 2]
        numbers = [(words[1], [int(n) for n in words[2:]]) for words in kernels]
        return [Launch(name, (*n[:3],), (*n[3:6],), n[6]) for name, n in numbers]


@pytest.fixture
def fake_cuda(tmp_path: Path) -> FakeCuda:
    """A CUDA without a GPU, with a log of its own; machine code is loaded, but not executed."""
    return FakeCuda(tmp_path / "cuda.log")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in which libraries that stand in write down what they are asked."""
    path = tmp_path / "log"
    monkeypatch.setenv("FAKE_CUDA_LOG", str(path))
    path.touch()
    return path


@pytest.fixture(scope="module")
def hopper():
    """Executes code for Hopper alone."""
    from tests.cuda.hopper import ARCH
    from tests.cuda.kernels import target
    from tvm_sparse.emulation.process import Emulator

    with Emulator(target(ARCH)) as found:
        yield found
