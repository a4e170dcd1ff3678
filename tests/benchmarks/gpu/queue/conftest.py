import pytest

from benchmarks.gpu import device
from tests.benchmarks.gpu.queue.chip import Chip


@pytest.fixture(autouse=True)
def chip(monkeypatch):
    """The device of this process."""
    found = Chip()
    monkeypatch.setattr(device, "current", lambda: found)
    return found
