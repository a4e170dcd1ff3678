import time

import pytest

from benchmarks.gpu import prepare
from benchmarks.gpu.queue import background as module
from benchmarks.gpu.queue.background import Background


class Kernel:
    """A kernel that is built when its file is there."""

    def __init__(self, name, place):
        self.name, self._place = name, place / name

    def place(self, target):
        return self._place


def build(kernel, target, place, *, ptx):
    if kernel.name == "broken":
        raise ValueError("no format")
    (place / "arrays").mkdir(parents=True, exist_ok=True)
    (place / "code").mkdir(exist_ok=True)


def late(seconds):
    time.sleep(seconds)


@pytest.fixture
def threads(monkeypatch):
    """Threads in place of processes, which start in seconds."""
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(prepare, "build", build)
    monkeypatch.setattr(
        module, "ProcessPoolExecutor", lambda workers, context, initializer: ThreadPoolExecutor(1)
    )


def test_kernels_are_there_when_they_were_waited_for(tmp_path, threads):
    kernels = [Kernel(name, tmp_path) for name in ("a", "broken", "b")]
    beside = Background("t", workers=1, ptx=False)
    beside.pack(kernels)
    beside.wait_for([kernels[2]])
    assert (tmp_path / "b" / "arrays").exists()
    with pytest.raises(ValueError, match="no format"):
        beside.wait_for(kernels)
    beside.finish()


def test_without_processes_they_are_made_when_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "build", build)
    kernel, beside = Kernel("a", tmp_path), Background("t", workers=0, ptx=False)
    beside.pack([kernel])
    beside.start("network", late, 1)
    assert not (tmp_path / "a").exists()
    assert beside.ready("network")
    beside.wait_for([kernel])
    assert (tmp_path / "a" / "arrays").exists()


def test_tasks_are_ready_when_they_have_ended(tmp_path, threads):
    beside = Background("t", workers=1, ptx=False)
    beside.start("network", late, 0.2)
    assert not beside.ready("network")
    beside.finish()
    assert beside.ready("network")
