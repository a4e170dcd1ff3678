import pytest

from tvm_sparse.comparison import latency as timing


def test_programs_take_turns_and_warm_up():
    calls = []
    programs = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    found = timing.race(programs, rounds=2, calls=3)
    turn = timing.WARM_UP + 3
    assert "".join(calls) == ("a" * turn + "b" * turn) * 2
    assert found["a"].calls == found["b"].calls == 6


def test_latency_is_in_microseconds(monkeypatch):
    """A clock that stands still, but for each call of one of the two programs."""
    now = [0]
    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: now[0])

    def slow():
        now[0] += 7_000

    def slower_once(steps=iter([9_000] * 103 + [90_000])):
        now[0] += next(steps)

    found = timing.race({"slow": slow, "once": slower_once}, rounds=1, calls=101)
    assert (found["slow"].median_us, found["slow"].p99_us) == (7, 7)
    assert (found["once"].median_us, found["once"].p99_us) == (9, 9)
    assert found["once"].calls == 101


def test_progress_is_told_of_each_round():
    told = []
    timing.race({"a": int}, rounds=3, calls=1, progress=lambda *what: told.append(what))
    assert told == [("timing", n, 3) for n in (1, 2, 3)]


def test_errors_are_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        timing.race({"a": lambda: 1 / 0})


def test_long_calls_come_once_a_turn(monkeypatch):
    now = [0]
    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: now[0])
    for nanoseconds, calls in ((49_000_000, 20), (51_000_000, 1)):

        def program(nanoseconds=nanoseconds):
            now[0] += nanoseconds

        assert timing.calls_a_turn(program) == calls
