import ml_dtypes
import numpy as np
import pytest

from tvm_sparse.base.made_inputs import TYPICAL, Whole, made_inputs, sizes, told
from tvm_sparse.errors import InputError
from tvm_sparse_runtime.spec import TensorSpec

WORDS = [TensorSpec("ids", ("b", "t"), "int64"), TensorSpec("mask", ("b", "t"), "bool")]


def test_one_batch_of_typical_extents_comes_first_then_the_smallest():
    assert [*sizes(WORDS, {"t": (2, None)})] == [{"b": 1, "t": TYPICAL}, {"b": 1, "t": 2}]
    assert [*sizes(WORDS, {"t": (2, 16)}, {"b": 3})] == [{"b": 3, "t": 16}, {"b": 3, "t": 2}]
    assert [*sizes(WORDS, None, {"b": 3, "t": 5})] == [{"b": 3, "t": 5}]


def test_multiples_are_as_large_as_is_typical():
    (picture,) = [TensorSpec("x", ("2 * n", 3, "32 * h", "8 * w + 1"), "float32")]
    assert next(sizes([picture], None)) == {"n": 1, "h": 2, "w": 7}
    assert [x.shape for x in made_inputs([picture], {"n": 1, "h": 2, "w": 7})] == [(2, 3, 64, 57)]


def test_fixed_shapes_have_one_size():
    fixed = [TensorSpec("x", (2, 3), "float32"), TensorSpec("n", (), "int32")]
    assert [*sizes(fixed, None)] == [{}]
    x, n = made_inputs(fixed, {})
    assert (x.shape, n.shape, n) == ((2, 3), (), 1)
    assert told({}) == ""


def test_a_name_that_no_input_has_is_refused():
    with pytest.raises(InputError, match=r"open extent 'T'.*expected b, t"):
        next(sizes(WORDS, None, {"T": 3}))
    with pytest.raises(InputError, match="all extents are fixed"):
        next(sizes([TensorSpec("x", (2,), "float32")], None, {"T": 3}))


def test_a_mask_hides_no_whole_line_and_words_differ():
    ids, mask = made_inputs(WORDS, {"b": 8, "t": 64})
    assert (ids.dtype, mask.dtype) == (np.int64, np.bool_)
    assert {*ids.flat} == {0, 1}
    assert mask[:, 0].all()
    assert not mask.all()
    ones, zeros = (made_inputs(WORDS, {"b": 8, "t": 64}, how) for how in (Whole.ONES, Whole.ZEROS))
    assert ones[0].all()
    assert not zeros[0].any()


def test_bytes_have_all_values_and_floats_repeat():
    specs = [TensorSpec("x", (4096,), "uint8"), TensorSpec("y", (64,), "bfloat16")]
    x, y = made_inputs(specs, {})
    assert (x.min(), x.max()) == (0, 255)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(made_inputs(specs, {})[1], y)


def test_sizes_are_told_by_name():
    assert told({"B": 1, "T": 64}) == "at B=1, T=64"
