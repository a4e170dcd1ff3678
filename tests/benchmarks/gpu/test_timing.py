from statistics import median

import pytest

from benchmarks.gpu import device
from benchmarks.gpu.timeline import FLUSH, Timeline
from benchmarks.gpu.timing import FEWEST, LONGEST, SECONDS, OwnGraphs, Timer, calls_of, gpu_times

KERNEL, FAST, SLOW = 25e-6, 5e-6, 400e-6
"""Seconds of a kernel, and of two hosts that launch it: Triton's took as long as the slow one."""


class Uncapturable(Timeline):
    def captured(self, program):
        raise RuntimeError("operation not permitted when stream is capturing")


def programs(on, hosts=(FAST, SLOW)):
    return {f"host {host}": lambda host=host: on.launch(KERNEL, host) for host in hosts}


def without_sleep(on, program, calls=9):
    """The median as it was measured before: the flush alone hides the host."""
    times = []
    for _ in range(calls):
        on.flush("dirty")
        begin = on.event()
        program()
        times.append(on.between(begin, on.event()))
        on.wait()
    return median(times)


def test_a_flush_alone_does_not_hide_a_slow_host():
    on = Timeline()
    fast, slow = (without_sleep(on, one) for one in programs(on).values())
    assert fast == pytest.approx(KERNEL)
    assert slow > 10 * KERNEL
    assert slow == pytest.approx(SLOW + KERNEL - FLUSH["dirty"], rel=0.1)


@pytest.mark.parametrize("kind", [Timeline, Uncapturable])
@pytest.mark.parametrize("flush", device.FLUSHES)
def test_a_slow_host_does_not_change_a_time(kind, flush):
    on = kind()
    for row in gpu_times(programs(on), 20, flush, on).values():
        assert row["median_us"] == pytest.approx(KERNEL * 1e6)
        assert row["p99_us"] == pytest.approx(KERNEL * 1e6)
        assert row["calls"] == 20
        assert row["how"] == ("graph" if kind is Timeline else "sleep")
        assert ("not_captured" in row) == (kind is Uncapturable)
        assert "contaminated" not in row


def test_the_launching_time_of_the_host_is_recorded():
    on = Uncapturable()
    fast, slow = gpu_times(programs(on), 20, "clean", on).values()
    assert 1e-6 * fast["host_us"] == pytest.approx(FAST, abs=10e-6)
    assert 1e-6 * slow["host_us"] == pytest.approx(SLOW, abs=10e-6)


def test_a_host_that_stumbles_is_waited_for():
    """One call in three takes long: none of its time is in any sample."""
    on, calls = Uncapturable(), []

    def program():
        calls.append(1)
        on.launch(KERNEL, SLOW if len(calls) % 3 == 0 else FAST)

    (row,) = gpu_times({"stumbles": program}, 30, "clean", on).values()
    assert row["calls"] == 30
    assert row["p99_us"] == pytest.approx(KERNEL * 1e6)


def test_a_program_that_waits_for_the_stream_is_marked():
    on = Uncapturable()

    def program():
        on.launch(KERNEL)
        on.wait()

    (row,) = gpu_times({"waits": program}, 20, "clean", on).values()
    assert "however long" in row["contaminated"]


def test_rows_say_what_programs_found_and_who_is_contaminated(monkeypatch):
    on = Timeline()
    monkeypatch.setattr(device, "current", lambda: on)
    row = Timer(20, "dirty").row(programs(on))
    assert row["flush"] == "dirty"
    assert "contaminated" not in row
    late = {"late": OwnGraphs(lambda: on.launch(KERNEL, 2 * LONGEST))}
    row = Timer(20, "dirty").row(late)
    assert row["contaminated"].keys() == {"late"}


def test_programs_with_graphs_of_their_own_are_not_captured():
    on = Timeline()
    row = gpu_times({"own": OwnGraphs(lambda: on.launch(KERNEL))}, 20, "clean", on)["own"]
    assert (row["how"], row["not_captured"]) == ("sleep", "has graphs of its own")


def test_slow_programs_are_called_less_often():
    assert calls_of(1e-5, 100) == 100
    assert calls_of(SECONDS / 50, 100) == 50
    assert calls_of(3.0, 100) == FEWEST
    assert calls_of(3.0, 5) == 5
    assert calls_of(0.0, 100) == 100
