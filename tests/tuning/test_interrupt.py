"""Ctrl-C: the first asks, the second insists, and afterwards everything is as before."""

from __future__ import annotations

import signal
from threading import Thread

import pytest

from tvm_sparse.tuning.interrupt import stop_on_interrupt


def test_the_first_interrupt_asks_and_the_second_insists():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stop_on_interrupt() as stop:
        assert not stop
        signal.raise_signal(signal.SIGINT)
        assert stop
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_change_nothing():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with stop_on_interrupt() as stop:
            seen.append((bool(stop), signal.getsignal(signal.SIGINT)))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, before)]
