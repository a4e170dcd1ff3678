import numpy as np
import pytest
import typer

from tvm_sparse.cli.options import (
    Bound,
    InputShape,
    constants,
    example_inputs,
    parse_bound,
    parse_shape,
    random_array,
)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("1,3,224,224", InputShape((1, 3, 224, 224))),
        ("7", InputShape((7,))),
        (" 2, 5 ", InputShape((2, 5))),
        ("1,128:int64", InputShape((1, 128), "int64")),
        ("4:float16", InputShape((4,), "float16")),
        ("x=1,3,48,W", InputShape((1, 3, 48, "W"), name="x")),
        ("a=b:0=2,4:int64", InputShape((2, 4), "int64", "a=b:0")),
        ("rate=", InputShape((), name="rate")),
    ],
)
def test_shapes_are_read(text, shape):
    assert parse_shape(text) == shape


@pytest.mark.parametrize(
    "text", ["", "1,", "1x3", "a", "1,W", "x=0", "1,3:flot32", "0,3", "-1,3", "1.5"]
)
def test_other_texts_are_usage_errors(text):
    with pytest.raises(typer.BadParameter):
        parse_shape(text)


def test_bounds_are_read():
    assert parse_bound("N=32") == Bound("N", 1, 32)
    assert parse_bound("N=8:32") == Bound("N", 8, 32)
    assert parse_bound("N=8:") == Bound("N", 8, None)
    for text in ("N", "N=", "=3", "N=a", "N=1:b"):
        with pytest.raises(typer.BadParameter):
            parse_bound(text)


def test_examples_by_name():
    examples = example_inputs([InputShape((2, 3), name="x")], None)
    assert {name: tuple(x.shape) for name, x in examples.items()} == {"x": (2, 3)}
    with pytest.raises(typer.BadParameter, match="name all shapes"):
        example_inputs([InputShape((2, 3), name="x"), InputShape((2,))], None)


def test_examples_have_shape_and_dtype():
    first, second = example_inputs([InputShape((2, 3)), InputShape((4,), "int64")], None)
    assert tuple(first.shape) == (2, 3)
    assert str(first.dtype) == "torch.float32"
    assert 0 <= first.min() < first.max() < 1
    assert str(second.dtype) == "torch.int64"
    assert second.tolist() == [0, 0, 0, 0]


def test_examples_come_from_files(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1, 2), np.float32))
    (example,) = example_inputs(None, [tmp_path / "x.npy"])
    assert example.tolist() == [[1.0, 1.0]]


def test_no_examples():
    assert example_inputs(None, None) is None


def test_shapes_and_files_exclude_each_other(tmp_path):
    with pytest.raises(typer.BadParameter, match="not both"):
        example_inputs([InputShape((1,))], [tmp_path / "x.npy"])


def test_random_arrays_repeat():
    np.testing.assert_array_equal(random_array((5,), "float32"), random_array((5,), "float32"))


def test_constants_are_numbers_lists_or_files(tmp_path):
    np.save(tmp_path / "t.npy", np.ones((1, 2), np.float32))
    found = constants(["rate=16000", "a=b=0.5", "on=true", "row=[1, 2]", f"t={tmp_path}/t.npy"])
    assert {name: value.tolist() for name, value in found.items()} == {
        "rate": 16000,
        "a=b": 0.5,
        "on": True,
        "row": [1, 2],
        "t": [[1.0, 1.0]],
    }
    assert constants(None) is None


@pytest.mark.parametrize("text", ["rate", "=1", "rate=", "rate=high", "rate=null", "rate=[1, [2]]"])
def test_other_constants_are_usage_errors(text):
    with pytest.raises(typer.BadParameter, match="is not like rate=16000"):
        constants([text])
