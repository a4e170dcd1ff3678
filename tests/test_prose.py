"""The check of sentences finds what is too long, and nothing else."""

from __future__ import annotations

import pytest

from tests import tools

prose = tools.load("prose")

LONG = " ".join(["word"] * 31)


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f"Short one. {LONG}.",
        f"* {LONG}",
        f"# Title\n\n{LONG.replace(' ', chr(10))}",
        f"{LONG}\n\n| a | b |",
        "we utilise a word",
    ],
)
def test_a_sentence_that_is_too_long_is_found(text):
    assert len([*prose.checked(text, "f.md")]) == 1


@pytest.mark.parametrize(
    "text",
    [
        " ".join(["word"] * 30),
        f"{' '.join(['word'] * 20)}. {' '.join(['word'] * 20)}",
        f"`{LONG}` is code, and so is :func:`{LONG}`.",
        f"[one]({LONG.replace(' ', '/')}) link",
        f"| {LONG} |",
        "\n".join(["* word word word word word"] * 20),
        "A title\n-------\n\n" + " ".join(["word"] * 29),
    ],
)
def test_what_is_no_sentence_is_left_alone(text):
    assert not [*prose.checked(text, "f.md")]


def test_code_in_a_docstring_is_left_alone():
    text = prose._prose(f"Do it.\n\n    {LONG}\n    {LONG}\n\nThen stop.")
    assert not [*prose.checked(text, "f.py")]
