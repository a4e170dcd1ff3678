"""What a file may say of layers that stay float."""

from __future__ import annotations

import json

import pytest

from tvm_sparse.frontends.program.left_float import LEFT_FLOAT, vetted_custom


def custom(**changes):
    return {LEFT_FLOAT: {"tolerance": 0.03, "losses": {"a.b": 0.5}, **changes}}


def test_what_is_known_is_kept_and_the_rest_dropped():
    found = vetted_custom(json.dumps({**custom(more="text"), "other": [1]}))
    assert json.loads(found) == custom()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps(custom(losses={"a\n": 0.5})),
        json.dumps(custom(losses={"a": "text"})),
        json.dumps(custom(losses=None)),
        json.dumps(custom(tolerance=float("nan"))),
        None,
    ],
)
def test_anything_else_is_not_kept(text):
    assert vetted_custom(text) == ""
