import numpy as np
import pytest
import torch

from tvm_sparse.comparison import reference, runtimes


@pytest.fixture(autouse=True)
def few_runtimes(monkeypatch):
    """Leave eager and one that fails: compiling with others takes half a minute."""

    def fails(given, place):
        raise RuntimeError("not today")

    found = {"PyTorch eager": runtimes.RUNTIMES["PyTorch eager"], "other": (fails, "torch")}
    monkeypatch.setattr(runtimes, "RUNTIMES", found)
    monkeypatch.setattr(runtimes, "FLOAT", tuple(found))
    monkeypatch.setattr(runtimes, "INT8", ())
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        monkeypatch.setenv(name, "1")


def test_programs_are_verified_and_timed(call_json, here, pt2):
    np.save("x.npy", np.ones((3, 64), np.float32))
    printed = call_json(
        "bench", pt2, "--input", "x.npy", "--rounds", 2, "--picture", here / "b.svg"
    )
    names = {row["program"] for row in printed["rows"]}
    assert names == {"tvm-sparse", "tvm-sparse, all dense", "PyTorch eager"}
    for row in printed["rows"]:
        assert row["error"] < 1e-5
        assert 0 < row["median_us"] <= row["p99_us"]
    assert printed["missing"] == {"other": "not today"}
    assert (here / "b.svg").read_text().startswith("<svg")


def test_the_last_line_says_who_is_faster(call, here, pt2):
    printed = call("bench", pt2, "--rounds", 2).stdout
    assert "not timed: other: not today" in printed
    assert printed.splitlines()[-1].endswith("x the speed of the fastest other (PyTorch eager)")


def test_wrong_outputs_are_not_timed(call, call_json, here, pt2, monkeypatch):
    right = reference.largest_error
    wrong = iter([0.0, 0.0, 0.5])
    monkeypatch.setattr(
        reference, "largest_error", lambda a, b, c: max(right(a, b, c), next(wrong))
    )
    printed = call_json("bench", pt2, "--rounds", 2)
    assert "other outputs" in printed["missing"]["PyTorch eager"]
    monkeypatch.setattr(reference, "largest_error", lambda *_: 0.5)
    assert "computed wrongly" in call("bench", pt2, status=1).stderr


def test_a_picture_that_cannot_be_written_is_refused_first(call, here):
    error = call("bench", "missing.pt2", "--picture", "no/b.svg", status=1).stderr
    assert "no directory" in error


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_compiled(call, here):
    error = call("bench", "missing.pt2", "--target", "cuda:sm_90", status=1).stderr
    assert "--target: code for 'cuda:sm_90' does not run on this machine" in error


@pytest.fixture
def open_rows(here, small):
    """``small`` with an open batch."""
    rows = {0: torch.export.Dim("rows", max=64)}
    program = torch.export.export(small, (torch.rand(3, 64),), dynamic_shapes=(rows,))
    torch.export.save(program, here / "open.pt2")
    return here / "open.pt2"


def test_each_set_of_sizes_of_open_extents_is_timed(call, call_json, open_rows):
    sizes = ["--at", "batch=2", "--at", "batch=5"]
    printed = call_json("bench", open_rows, *sizes, "--rounds", 2)
    assert [row["at"] for row in printed["rows"]] == 3 * [{"batch": 2}] + 3 * [{"batch": 5}]
    told = call("bench", open_rows, *sizes, "--rounds", 2).stdout.splitlines()
    assert "at batch=2:" in told
    assert [line.rpartition(" ")[2] for line in told[-2:]] == ["batch=2", "batch=5"]


def test_open_extents_that_are_not_asked_are_named(call_json, open_rows):
    rows = call_json("bench", open_rows, "--rounds", 2)["rows"]
    assert {str(row["at"]) for row in rows} == {"{'batch': 1}"}


def test_sizes_that_say_nothing_are_refused(call, open_rows):
    assert "no input's; expected batch" in call("bench", open_rows, "--at", "T=2", status=1).stderr
    both = ["--at", "batch=2", "--input", "x.npy"]
    assert "given inputs have their sizes" in call("bench", open_rows, *both, status=2).stderr
    assert "is not like B=8" in call("bench", open_rows, "--at", "batch", status=2).stderr
