"""Ctrl-C at any time of a first compilation leaves a process in which the next one works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from tvm_sparse.base.interrupts import whole_imports

SLOW = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.2)
whole = True
"""

FIRST = """
import os, signal, sys, threading, time
import torch
from torch import nn

model, x = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval(), torch.zeros(1, 3, 8, 8)
delay = float(sys.argv[1])
threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    import tvm_sparse as ts
    while time.monotonic() < begin + delay + 60:
        ts.compile(model, (x,))
except KeyboardInterrupt:
    print("interrupted")
torch.testing.assert_close(ts.compile(model, (x,))(x), model(x))
print("right")
"""


def test_a_module_is_imported_whole(tmp_path, monkeypatch):
    (tmp_path / "slow_one.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), whole_imports():
            import slow_one

            threading.Event().wait(5)
        assert slow_one.whole
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with pytest.raises(KeyboardInterrupt), whole_imports():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
        sys.modules.pop("slow_one", None)


def test_handlers_of_others_are_left_alone():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with whole_imports():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.3, 0.8, 1.3, 2.1, 3.4, 5.5, 8.0])
def test_the_next_compilation_works(delay, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FIRST, str(delay)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
    )
    assert done.stdout == "interrupted\nright\n", done.stderr[-2000:]
