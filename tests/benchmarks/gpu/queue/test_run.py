import threading

import pytest

from benchmarks.gpu.queue.background import Background
from benchmarks.gpu.queue.step import Step
from tests.benchmarks.gpu.queue.chip import Clock, piece, queue, step


def fail():
    raise ArithmeticError("3 times the allowed error")


def names(store):
    return [(line["step"], line["piece"]) for line in store.lines]


def test_pieces_run_in_the_order_of_the_table(tmp_path):
    found = queue(tmp_path, step("a", piece("1"), piece("2")), step("b", piece("3")))
    assert names(found.store) == [("a", "1"), ("a", "2"), ("b", "3")]
    assert not found.over
    assert found.store.lines[0]["rows"] == [{"case": "c"}]
    assert found.store.lines[0]["environment"]["gpu"] == "NVIDIA A1"


def test_a_failing_piece_costs_itself_alone(tmp_path):
    found = queue(tmp_path, step("a", piece("1", fail), piece("2")), step("b", piece("3")))
    assert names(found.store) == [("a", "1"), ("a", "2"), ("b", "3")]
    assert found.store.lines[0]["failed"] == "ArithmeticError: 3 times the allowed error"


def test_rows_that_break_off_are_not_saved(tmp_path):
    def half():
        yield {"case": "first"}
        fail()

    found = queue(tmp_path, step("a", piece("1", half)))
    assert "rows" not in found.store.lines[0]


def test_steps_whose_pieces_cannot_be_listed_fail_alone(tmp_path):
    def broken(plan):
        yield piece("1")
        raise KeyError("no such part")

    bad = Step("a", 1.0, "runs", "decides", broken)
    found = queue(tmp_path, bad, step("b", piece("3")))
    assert ("a", "1") in names(found.store)
    assert ("b", "3") in names(found.store)
    (failed,) = (line for line in found.store.last("a") if "failed" in line)
    assert "no such part" in failed["failed"]


def test_a_lost_gpu_is_gone_on_with_in_a_fresh_process(tmp_path, chip):
    class Restarted(BaseException):
        pass

    def crash():
        chip.broken = True
        raise RuntimeError("an illegal memory access was encountered")

    def restart():
        raise Restarted

    steps = step("a", piece("1", crash), piece("2"))
    with pytest.raises(Restarted):
        queue(tmp_path, steps, restart=restart)
    chip.broken = False
    found = queue(tmp_path, steps)
    assert names(found.store) == [("a", "1"), ("a", "2")]
    assert "illegal memory access" in found.store.lines[0]["failed"]


def test_a_piece_that_does_not_end_is_given_up(tmp_path):
    """From another thread: nothing returns from a kernel that hangs."""
    free, restarted = threading.Event(), []

    def hang():
        assert free.wait(30)
        return []

    def restart():
        restarted.append(threading.current_thread() is not threading.main_thread())
        free.set()

    found = queue(tmp_path, step("a", piece("1", hang, limit=0.05)), restart=restart)
    assert restarted == [True]
    assert found.store.lines[0]["failed"] == "took over 0.05 s"


def test_when_the_minutes_are_over_it_stops_between_pieces(tmp_path):
    clock, seen = Clock(), []

    def half_a_minute(name):
        def run():
            seen.append(name)
            clock.spend(30)
            return [{"case": name}]

        return run

    pieces = [piece(name, half_a_minute(name), seconds=20.0) for name in "abcd"]
    found = queue(tmp_path, step("s", *pieces), minutes=1.2, clock=clock)
    assert found.over
    assert seen == ["a", "b"]
    assert not queue(tmp_path, step("s", *pieces), session="next", clock=clock).over
    assert seen == ["a", "b", "c", "d"]


def test_a_step_that_takes_longer_than_its_minutes_comes_again_last(tmp_path):
    clock, seen = Clock(), []

    def minute(name):
        def run():
            seen.append(name)
            clock.spend(60)
            return []

        return run

    long = step("long", *(piece(name, minute(name)) for name in "abc"), minutes=0.5)
    queue(tmp_path, long, step("short", piece("d", minute("d"))), clock=clock)
    assert seen == ["a", "d", "b", "c"]


def test_only_what_changed_is_run_again(tmp_path):
    queue(tmp_path, step("s", piece("same"), piece("changed"), piece("failed", fail)))
    again = step("s", piece("same"), piece("changed", key="other"), piece("failed"))
    found = queue(tmp_path, again, session="next")
    assert names(found.store)[3:] == [("s", "changed"), ("s", "failed")]
    assert found.kept == {"s": 3}


def test_what_failed_is_tried_once_a_session(tmp_path):
    steps = step("s", piece("failed", fail))
    queue(tmp_path, steps)
    queue(tmp_path, steps)
    assert len(queue(tmp_path, steps, session="next").store.lines) == 2


def test_what_does_not_exist_is_skipped_by_name(tmp_path, capsys):
    found = queue(tmp_path, step("s", piece("wgmma", fail, skip="not built yet"), piece("1")))
    assert names(found.store) == [("s", "1")]
    assert found.skipped == {("s", "wgmma"): "not built yet"}
    assert capsys.readouterr().err.count("s: wgmma: not built yet: skipped") == 1


def test_what_is_not_ready_at_first_is_run_at_the_end(tmp_path):
    listed = []

    def pieces(plan):
        listed.append(1)
        yield piece("network", skip="not compiled yet" if len(listed) == 1 else "")

    found = queue(tmp_path, Step("a", 1.0, "runs", "decides", pieces), step("b", piece("1")))
    assert names(found.store) == [("b", "1"), ("a", "network")]
    assert not found.skipped


def test_pieces_that_need_all_cores_wait_for_the_background(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(Background, "finish", lambda self: order.append("finished"))

    def run(name):
        return lambda: order.append(name) or []

    queue(tmp_path, step("a", piece("gpu", run("gpu")), piece("cpu", run("cpu"), alone=True)))
    assert order == ["gpu", "finished", "cpu"]
