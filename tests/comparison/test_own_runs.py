from types import SimpleNamespace

import numpy as np
import pytest

from tvm_sparse.comparison.own_runs import own_runs
from tvm_sparse.errors import InputError
from tvm_sparse_runtime.errors import SparseRuntimeError
from tvm_sparse_runtime.spec import TensorSpec

SPECS = [TensorSpec("ids", ("b", "t"), "int64"), TensorSpec("x", ("b", "t"), "float32")]


def library(run=lambda *inputs: inputs):
    return SimpleNamespace(inputs=SPECS, bounds={}, run=run)


def mean_of_chosen(inputs):
    """A source whose result is NaN where its mask hides everything."""
    ids, x = inputs
    with np.errstate(invalid="ignore"):
        return lambda: [(ids * x).sum(1) / ids.sum(1)]


def test_a_source_is_run_at_typical_and_at_the_smallest_sizes():
    runs = own_runs(library(), mean_of_chosen)
    assert [run.extents for run in runs] == [{"b": 1, "t": 64}, {"b": 1, "t": 1}]
    for run in runs:
        assert np.isfinite(run.outputs[0]).all()
        np.testing.assert_array_equal(run.program()[0], run.outputs[0])


def test_sizes_that_are_asked_are_taken():
    (run,) = own_runs(library(), mean_of_chosen, at={"b": 3, "t": 5})
    assert [x.shape for x in run.inputs] == [(3, 5), (3, 5)]


def test_files_are_the_only_run(tmp_path):
    files = [tmp_path / "ids.npy", tmp_path / "x.npy"]
    for file, value in zip(
        files, (np.ones((1, 3), np.int64), np.float32([[1, 2, 6]])), strict=True
    ):
        np.save(file, value)
    (run,) = own_runs(library(), mean_of_chosen, files)
    assert (run.extents, [*run.outputs[0]]) == ({}, [3])


def test_integers_that_the_source_refuses_are_replaced():
    def only_zeros(inputs):
        if inputs[0].any():
            raise IndexError("index 1 is out of bounds")
        return lambda: [inputs[1]]

    assert not own_runs(library(), only_zeros)[0].inputs[0].any()


def test_sizes_that_the_source_or_the_library_refuses_are_left_out():
    def short(inputs):
        if inputs[0].shape[1] > 8:
            raise RuntimeError("too long")
        return lambda: [inputs[1]]

    def asserts(ids, x):
        if ids.shape[1] > 8:
            raise SparseRuntimeError("main", "failed", "what the model asserts")

    for found in (own_runs(library(), short), own_runs(library(asserts), mean_of_chosen)):
        assert [run.extents for run in found] == [{"b": 1, "t": 1}]


def test_nothing_is_compared_with_results_that_are_nowhere_finite():
    with pytest.raises(InputError, match=r"nowhere finite.*--input"):
        own_runs(library(), lambda inputs: lambda: [np.full(3, np.nan), inputs[1]])


def test_the_reason_of_a_source_that_takes_nothing_is_told_in_one_line():
    def refuses(inputs):
        raise ValueError("no such rate\nstack")

    with pytest.raises(InputError, match="no such rate") as error:
        own_runs(library(), refuses)
    assert "stack" not in str(error.value)
