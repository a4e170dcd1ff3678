"""The layer of a tensor, by its name."""

from __future__ import annotations

import pytest

from tvm_sparse.base.names import layer_of, layer_of_array, matches, plain_name, printable


@pytest.mark.parametrize(
    ("stored", "plain"),
    [
        ("a.weight", "a.weight"),
        ("a.weight_orig", "a.weight"),
        ("a.weight_mask", "a.weight"),
        ("a.parametrizations.weight.original", "a.weight"),
        ("parametrizations.weight_hh_l0.original1", "weight_hh_l0"),
    ],
)
def test_plain_names(stored, plain):
    assert plain_name(stored) == plain


def test_layer_ofs():
    assert layer_of("a.0.weight") == "a.0"
    assert layer_of("weight") == "weight"
    assert layer_of("lstm.weight_ih_l0") == "lstm.weight_ih_l0"
    assert layer_of("a.0.weight_orig") == "a.0"


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("fc.weight.values", "fc"),
        ("block.0.conv.weight_orig.indices", "block.0.conv"),
        ("fc.bias", "fc"),
        ("", ""),
    ],
)
def test_the_layer_of_an_array(name, layer):
    assert layer_of_array(name) == layer


def test_a_glob_covers_names_and_a_name_itself():
    assert matches("a.0", "a.*")
    assert matches("a[0]", "a[0]")
    assert matches("a0", "a[0]")
    assert not matches("b", "a[0]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a [b] :c: é日", "a [b] :c: é日"),
        ("\x1b[31m", r"\x1b[31m"),
        ("a\nb", r"a\nb"),
        ("\u202e", r"\u202e"),
        ("\udcff", r"\udcff"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
    ],
)
def test_printable_names(text, shown):
    assert printable(text) == shown
    assert printable(text, kept=text) == text
