import pytest

from tvm_sparse_runtime import extents
from tvm_sparse_runtime.errors import TensorError
from tvm_sparse_runtime.spec import TensorSpec

DIMS = {"batch": 6, "n": 4}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("batch", 6),
        ("7", 7),
        ("batch * 2 + n", 16),
        ("(batch - 1) // 2 % 3", 2),
        ("T.min(6, batch * n)", 6),
        ("T.max(batch, n)", 6),
    ],
)
def test_arithmetic(text, value):
    assert extents.evaluate(text, DIMS) == value


@pytest.mark.parametrize(
    "text",
    [
        *("other", "batch +", "9**9**9**9", "open('x')", "batch if n else 1", "n // 0", "'a'", ""),
        *("T.cast(n)", "(" * 90 + "1" + ")" * 90 + "(", "1+" * 50_000 + "1", "-" * 200 + "1"),
    ],
)
def test_what_cannot_be_told(text):
    assert extents.evaluate(text, DIMS) is None


def check(shape, bounds=None, dims=None):
    specs = [TensorSpec("x", ("batch", 3), "float32"), TensorSpec("y", ("batch * 2",), "int8")]
    extents.check(specs, [(shape[0], 3), shape[1:]], dims or {"batch": shape[0]}, bounds or {})


def test_what_fits():
    check((6, 12))
    check((6, 12), {"batch": (6, 6)})
    check((0, 0), {"batch": (0, None), "other": (9, 9)})


@pytest.mark.parametrize(
    ("shape", "bounds", "message"),
    [
        ((6, 11), {}, r"input y: shape \(11,\), 11 on axis 0; expected batch \* 2 = 12"),
        ((1, 2), {"batch": (2, None)}, "input x: .*expected batch = at least 2"),
        ((9, 18), {"batch": (2, 8)}, "input x: .*expected batch = 2 to 8"),
    ],
)
def test_what_does_not(shape, bounds, message):
    with pytest.raises(TensorError, match=message):
        check(shape, bounds)


@pytest.mark.parametrize("batch", [2**39, 2**62, 2**70])
def test_more_elements_than_any_memory(batch):
    with pytest.raises(TensorError, match=r"input x: .* expected at most 1099511627776 elements"):
        check((batch, batch * 2))


def test_an_empty_axis_counts_as_one():
    specs = [TensorSpec("x", ("batch", "n"), "float32")]
    with pytest.raises(TensorError, match="at most 1099511627776 elements"):
        extents.check(specs, [(2**41, 0)], {"batch": 2**41, "n": 0}, {})


@pytest.mark.parametrize(
    ("extent", "length", "value"),
    [
        ("h", 7, 7),
        ("h * 2", 14, 7),
        ("32 * h", 96, 3),
        ("h * 2 + 1", 15, 7),
        ("n * h", 12, 3),
        ("h * 0 + 3", 3, None),
        ("h * h", 9, None),
        ("h * k", 9, None),
        ("T.max(h, 2)", 9, None),
    ],
)
def test_a_length_binds_one_symbol(extent, length, value):
    dims = dict(DIMS)
    assert extents.bind(extent, length, dims) == ""
    assert dims == (DIMS if value is None else {**DIMS, "h": value})


@pytest.mark.parametrize(
    ("extent", "length", "told"),
    [("h * 2", 7, "a multiple of 2"), ("3 * h + 1", 12, "a multiple of 3 and 1")],
)
def test_what_is_no_multiple(extent, length, told):
    assert extents.bind(extent, length, {}) == told


def test_symbols():
    assert extents.names("T.min(h * 2, n) + h") == ("h", "n")
    assert extents.names("batch") == ("batch",)
    assert extents.names("batch +") == ()
