import pytest

from tvm_sparse_runtime import fields
from tvm_sparse_runtime.errors import RuntimeArtifactError


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\xff"}',
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"a": ' + b"1" * 10_000 + b"}",
        b"\xef\xbb\xbf{}",
    ],
    ids=range(12),
)
def test_bad_json_is_refused(data):
    with pytest.raises(RuntimeArtifactError, match=r"somewhere: .*damaged or was edited"):
        fields.parse_json(data, "somewhere")


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (fields.text, "añ x", ["", 1, None, "a\n", "\ud800", "\x00"]),
        (fields.integer(1, 9), 9, [0, 10, True, 1.0, "1", None]),
        (fields.optional(fields.integer(0)), None, ["", -1]),
        (fields.mapping(fields.text), {"a": "b"}, [{"a": 1}, [], None]),
        (fields.record({"a": fields.text}), {"a": "b"}, [{}, {"a": "b", "c": 1}, {"a": 1}, 3]),
    ],
)
def test_checks(check, good, bad):
    assert check(good, "here") == good
    for value in bad:
        with pytest.raises(RuntimeArtifactError, match="here"):
            check(value, "here")


def test_sequences_become_tuples_and_name_the_item():
    check = fields.sequence(fields.integer(0))
    assert check([1, 2], "here") == (1, 2)
    with pytest.raises(RuntimeArtifactError, match=r"here\[1\]"):
        check([1, -2], "here")
