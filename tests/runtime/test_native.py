"""The C interface gives what the Python runtime gives, and refuses what it refuses."""

from __future__ import annotations

import ctypes
import json
import re
import shutil

import numpy as np
import pytest

import tvm_sparse_runtime as rt
from tests import stored
from tests.runtime import manifests, native
from tests.runtime.arrays import aligned
from tests.runtime.native import Handle, Tensor
from tvm_sparse_runtime.manifest import FILE_NAME

X = np.arange(192, dtype="float32").reshape(3, 64) % 11


def tensor(array: np.ndarray, **changes) -> Tensor:
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    fields = {"dtype": array.dtype.name.encode(), "ndim": array.ndim, "shape": shape}
    fields |= {"data": array.ctypes.data, **changes}
    return Tensor(**fields)


def run(handle: Handle, *inputs: Tensor) -> tuple[int, list[np.ndarray]]:
    outputs = Handle()
    packed = (Tensor * len(inputs))(*inputs)
    status = native.library().tvm_sparse_run(handle, packed, len(inputs), ctypes.byref(outputs))
    found = []
    for index in range(native.library().tvm_sparse_outputs_count(outputs)):
        one = native.library().tvm_sparse_outputs_get(outputs, index).contents
        shape = one.shape[: one.ndim]
        size = int(np.prod(shape)) * np.dtype(one.dtype.decode()).itemsize
        found.append(
            np.frombuffer(ctypes.string_at(one.data, size), one.dtype.decode()).reshape(shape)
        )
    native.library().tvm_sparse_outputs_free(outputs)
    return status, found


@pytest.fixture
def linear(linear_artifact):
    status, handle = native.opened(linear_artifact)
    assert status == native.OK, native.last_error()
    yield handle
    native.library().tvm_sparse_close(handle)


def test_outputs_are_those_of_python_bit_for_bit(linear, linear_artifact):
    wanted = rt.load(linear_artifact, threads=1)(X)
    status, found = run(linear, tensor(X))
    assert status == native.OK
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_misaligned_input_is_copied(linear):
    shifted = aligned(X.size, "float32", 4).reshape(X.shape)
    shifted[:] = X
    for ours, theirs in zip(
        run(linear, tensor(shifted))[1], run(linear, tensor(X))[1], strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_outputs_in_borrowed_memory_are_copied(echo_artifact):
    status, handle = native.opened(echo_artifact)
    assert status == native.OK
    x = np.arange(64, dtype="int32").reshape(4, 16)
    outputs = Handle()
    given = tensor(x)
    assert native.library().tvm_sparse_run(handle, given, 1, ctypes.byref(outputs)) == native.OK
    first = native.library().tvm_sparse_outputs_get(outputs, 0).contents
    assert first.data != x.ctypes.data
    native.library().tvm_sparse_outputs_free(outputs)
    native.library().tvm_sparse_close(handle)


def test_a_clone_lives_on(linear):
    clone = Handle()
    assert native.library().tvm_sparse_clone(linear, ctypes.byref(clone)) == native.OK
    assert clone.value != linear.value
    for ours, theirs in zip(run(clone, tensor(X))[1], run(linear, tensor(X))[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    native.library().tvm_sparse_close(clone)


def test_a_clone_has_threads_of_its_own(linear):
    library = native.library()
    wanted = run(linear, tensor(X))[1]
    clone, again = Handle(), Handle()
    assert library.tvm_sparse_clone_with_threads(linear, 3, ctypes.byref(clone)) == native.OK
    assert library.tvm_sparse_clone(clone, ctypes.byref(again)) == native.OK
    for handle in (clone, again):
        for ours, theirs in zip(run(handle, tensor(X))[1], wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert library.tvm_sparse_clone_with_threads(linear, -1, ctypes.byref(clone)) == (
        native.BAD_ARGUMENT
    )
    assert "threads: '-1'; expected" in library.tvm_sparse_last_error().decode()
    library.tvm_sparse_close(again)


def test_descriptions(linear):
    spec = native.library().tvm_sparse_input(linear, 0).contents
    assert (spec.name, spec.dtype, spec.ndim) == (b"x", b"float32", 2)
    assert list(spec.shape[:2]) == [-1, 64]
    assert list(spec.symbols[:2]) == [b"batch", None]
    assert not native.library().tvm_sparse_input(linear, 1)
    assert native.library().tvm_sparse_num_outputs(linear) == 2
    assert native.library().tvm_sparse_version().decode() == rt.__version__


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (X.astype("float64"), "dtype float64; expected dtype float32"),
        (X[0].copy(), "shape (64,); expected 2 dimensions"),
        (X[:, :32].copy(), "expected 64 on axis 1"),
    ],
)
def test_inputs_that_do_not_fit(linear, given, words):
    status, found = run(linear, tensor(given))
    assert (status, found) == (native.BAD_TENSOR, [])
    assert words in native.last_error()


MOST = 2**63 - 1


@pytest.mark.parametrize("rows", [2**56 + 1, 2**62, MOST, -1, -MOST - 1, 2**40])
def test_sizes_beyond_all_memory_are_not_multiplied(linear, rows):
    """256 bytes are 2**56 + 1 rows of 64 numbers modulo 2**64."""
    shape = (ctypes.c_int64 * 2)(rows, 64)
    assert run(linear, tensor(X, shape=shape)) == (native.BAD_TENSOR, [])
    assert str(rows) in native.last_error()


def test_a_rank_beyond_all_shapes_is_not_read(linear):
    assert run(linear, tensor(X, ndim=2**31 - 1))[0] == native.BAD_TENSOR
    assert "2147483647 dimensions; expected 2 dimensions" in native.last_error()


def test_an_extent_beyond_its_bounds(tmp_path):
    from tests.artifact.programs import linear as program

    program().export(tmp_path / "bounded.tvms", bounds={"batch": (1, 2)})
    _, handle = native.opened(tmp_path / "bounded.tvms")
    assert run(handle, tensor(X))[0] == native.BAD_TENSOR
    assert "batch = 1 to 2" in native.last_error()
    assert run(handle, tensor(X[:2]))[0] == native.OK


@pytest.mark.parametrize(
    ("rows", "words"),
    [(2, ""), (4, ""), (3, "a multiple of 2, x: float32[half * 2, 64]"), (6, "half = 1 to 2")],
)
def test_an_extent_that_is_a_multiple(tmp_path, rows, words):
    """Both runtimes find the symbol by division, and check its bounds."""
    from tests.artifact.programs import linear as program

    inputs, path = (rt.TensorSpec("x", ("half * 2", 64), "float32"),), tmp_path / "a.tvms"
    program().export(path, inputs=inputs, bounds={"half": (1, 2)})
    x = np.ones((rows, 64), np.float32)
    status = run(native.opened(path)[1], tensor(x))[0]
    if not words:
        assert status == native.OK, native.last_error()
        rt.load(path).run(x)
        return
    assert status == native.BAD_TENSOR
    assert words in native.last_error()
    with pytest.raises(rt.TensorError, match=re.escape(words)):
        rt.load(path).run(x)


@pytest.mark.parametrize("offset", [0, 4, 20])
def test_inputs_that_begin_anywhere(offset):
    _, handle = native.opened(stored.path(5))
    x = aligned(stored.X.size, "float32", offset).reshape(stored.X.shape)
    x[...] = stored.X
    status, (y,) = run(handle, tensor(x))
    assert status == native.OK
    np.testing.assert_array_equal(y, np.load(stored.path(5).with_suffix(".npy")))
    native.library().tvm_sparse_close(handle)


def test_arguments_that_no_call_may_have(linear):
    assert run(linear)[0] == native.BAD_TENSOR
    library = native.library()
    assert library.tvm_sparse_open(None, None, ctypes.byref(Handle())) == native.BAD_ARGUMENT
    assert library.tvm_sparse_clone(None, ctypes.byref(Handle())) == native.BAD_ARGUMENT
    assert library.tvm_sparse_run(linear, None, 1, ctypes.byref(Handle())) == native.BAD_ARGUMENT
    assert run(linear, tensor(X, data=None))[0] == native.BAD_TENSOR
    library.tvm_sparse_close(None)


def changed(path, **changes):
    """Give a copy of a manifest other values, with the checksum that belongs to them."""
    body = json.loads((path / FILE_NAME).read_bytes())
    (path / FILE_NAME).write_bytes(manifests.signed({**body, **changes}))
    return path


CHANGES = [
    ({"format": "zip"}, "the format is"),
    ({"format_version": 1}, "format version 1"),
    ({"format_version": "2"}, "format version"),
    ({"versions": {"tvm": "0.1", "tvm_ffi": "0", "tvm_sparse": "0"}}, "made with apache-tvm 0.1"),
    ({"bounds": {"batch": [3, 2]}}, "bounds"),
    ({"threads": 0}, "threads"),
    ({"inputs": []}, "made for another manifest"),
    ({"library": "../model.so"}, "leaves the directory"),
    ({"library": "model.so"}, "a library named after its checksum"),
    ({"more": 1}, "keys"),
    *(
        (
            {"inputs": [{"name": "x", "shape": ["batch", *extents], "dtype": "float32"}]},
            "a shape that fits into memory",
        )
        for extents in ([2**62, 64], [2**32, 2**32], [0, 2**41], [2**63 - 1])
    ),
]


@pytest.mark.parametrize(("change", "words"), CHANGES, ids=[str(i) for i in range(len(CHANGES))])
def test_manifests_that_both_refuse(linear_artifact, tmp_path, change, words):
    path = changed(shutil.copytree(linear_artifact, tmp_path / "a.tvms"), **change)
    with pytest.raises(rt.RuntimeArtifactError):
        rt.load(path)
    status, handle = native.opened(path)
    assert (status, handle.value) == (native.BAD_ARTIFACT, None)
    assert words in native.last_error()


@pytest.mark.parametrize("numbers", [[1], [0, 0], [-1], ["0"], None, {}])
def test_numbers_of_inputs_that_both_refuse(tmp_path, numbers):
    path = shutil.copytree(stored.path(5), tmp_path / "a.tvms")
    changed(path, unaligned=numbers)
    with pytest.raises(rt.RuntimeArtifactError):
        rt.load(path)
    assert native.opened(path)[0] == native.BAD_ARTIFACT
    assert "unaligned" in native.last_error()


@pytest.mark.parametrize("phrases", [[1], None, {}])
def test_ranges_that_both_refuse(tmp_path, phrases):
    path = shutil.copytree(stored.path(7), tmp_path / "a.tvms")
    changed(path, ranges=phrases)
    with pytest.raises(rt.RuntimeArtifactError):
        rt.load(path)
    assert native.opened(path)[0] == native.BAD_ARTIFACT
    assert "ranges" in native.last_error()


def test_where_inputs_begin_belongs_to_the_code(tmp_path):
    path = shutil.copytree(stored.path(5), tmp_path / "a.tvms")
    changed(path, unaligned=[])
    with pytest.raises(rt.RuntimeArtifactError, match="another manifest"):
        rt.load(path)
    assert native.opened(path)[0] == native.BAD_ARTIFACT
    assert "made for another manifest" in native.last_error()


@pytest.mark.parametrize("feature", ["avx1024f"])
def test_code_for_another_cpu_is_refused(linear_artifact, tmp_path, feature):
    path = shutil.copytree(linear_artifact, tmp_path / "a.tvms")
    target = json.loads((path / FILE_NAME).read_bytes())["target"]
    changed(path, target={**target, "cpu_features": [feature]})
    assert native.opened(path)[0] == native.BAD_ARTIFACT
    assert f"this one lacks {feature}" in native.last_error()


TEXTS = ["plain", "\u00e4\u20ac\U0001f600", 'quote " back \\ slash /', "\b\f\n\r\t\x01\x7f", ""]


def test_decisions_of_any_sort_keep_their_checksum(tmp_path):
    """The checksum is over canonical JSON: texts, numbers and nesting as Python writes them."""
    from tests.artifact.programs import linear as program

    numbers = [0, -1, 2**70, 1.5, 1e-7, 1e22, -0.0, 123456789.123, 5e-324]
    decision = {"layer": "fc", "texts": TEXTS, "numbers": numbers, "deep": [[{"a": [None, True]}]]}
    program().export(tmp_path / "a.tvms", decisions=[decision, {text: 1 for text in TEXTS}])
    assert native.opened(tmp_path / "a.tvms")[0] == native.OK, native.last_error()


@pytest.mark.parametrize("text", ["batch * 4611686018427387904", "99999999999999999999 + batch"])
def test_arithmetic_that_wraps(tmp_path, text):
    """Both runtimes refuse every extent of an axis whose arithmetic is beyond all integers."""
    from tests.artifact.programs import linear as program

    inputs = (rt.TensorSpec("x", ("batch", 64), "float32"), rt.TensorSpec("y", (text,), "float32"))
    program().export(tmp_path / "a.tvms", inputs=inputs, weights={"w": program().weights["w"]})
    _, handle = native.opened(tmp_path / "a.tvms")
    given = np.zeros(3, "float32")
    with pytest.raises(rt.TensorError):
        rt.load(tmp_path / "a.tvms").run(X, given)
    assert run(handle, tensor(X), tensor(given))[0] == native.BAD_TENSOR
