from benchmarks.gpu.queue.store import Store, read
from tests.benchmarks.gpu.queue.chip import piece

HERE = {"gpu": "NVIDIA A1"}


def test_a_torn_line_is_left_out_and_the_next_one_is_whole(tmp_path):
    store = Store(tmp_path, "s")
    store.add("a", piece("1"), HERE, rows=[{"case": "c"}])
    with store.path.open("a") as file:
        file.write('{"step": "a", "piece": "2", "ro')
    again = Store(tmp_path, "s")
    assert [line["piece"] for line in again.lines] == ["1"]
    again.add("a", piece("3"), HERE, rows=[])
    assert [line["piece"] for line in read(store.path)] == ["1", "3"]


def test_states(tmp_path):
    store = Store(tmp_path, "s")
    assert store.state("a", piece("1")) == ""
    store.add("a", piece("1"), HERE, rows=[])
    store.add("a", piece("2"), HERE, failed="why")
    assert store.state("a", piece("1")) == "done"
    assert store.state("a", piece("1", key="other")) == ""
    assert store.state("b", piece("1")) == ""
    assert store.state("a", piece("2")) == "failed"
    assert Store(tmp_path, "next").state("a", piece("2")) == ""


def test_contaminated_rows_are_measured_again_by_the_next_session(tmp_path):
    store = Store(tmp_path, "s")
    store.add("a", piece("1"), HERE, rows=[{"contaminated": {"cublas": "why"}}])
    assert store.state("a", piece("1")) == "done"
    assert Store(tmp_path, "next").state("a", piece("1")) == ""


def test_lines_of_other_runs_count(tmp_path):
    first = Store(tmp_path / "first", "s")
    first.add("a", piece("1"), HERE, rows=[])
    other = Store(tmp_path / "other", "next", first.lines)
    assert other.state("a", piece("1")) == "done"
    assert not other.lines


def test_what_a_process_ended_in_has_failed(tmp_path):
    store = Store(tmp_path, "s")
    store.begin("a", piece("1"), HERE)
    store.add("a", piece("1"), HERE, rows=[])
    assert [line["rows"] for line in Store(tmp_path, "s").lines] == [[]]
    store.begin("a", piece("2"), HERE)
    for _ in range(2):
        again = Store(tmp_path, "s")
        assert again.state("a", piece("2")) == "failed"
        assert [line["piece"] for line in again.lines] == ["1", "2"]
    assert Store(tmp_path, "next").state("a", piece("2")) == ""
