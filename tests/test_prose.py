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
        "the storages of a weight",
        "Keep of bank patterns",
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


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (f'"""{LONG}"""', [1]),
        (f'X = 1\n"""{LONG}"""', [2]),
        (f'def f():\n    """Do.\n\n    {LONG}\n    """', [2]),
        (f"x = 1  # {LONG}", [1]),
        ("x = 1\n# " + "\n# ".join(["word " * 11] * 3), [2]),
        ("# " + "word " * 20 + "\nx = 1  # " + "word " * 20, []),
        ('def f(storage):\n    """Do.\n\n    storage\n        How.\n    """', []),
        (f"x = '{LONG}'", []),
    ],
)
def test_docstrings_and_comments_are_read(code, lines):
    said = [*prose._docstrings(code), *prose._comments(code)]
    assert [line for line, text in said for _ in prose.checked(text, "f.py")] == lines
