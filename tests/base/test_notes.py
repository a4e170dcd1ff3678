"""Notes are told in the order in which they were made, of one layer at a time."""

from __future__ import annotations

from tvm_sparse.base.notes import Note, Notes


def test_what_is_said_of_a_layer_is_one_phrase():
    notes = Notes([Note("a", "3 of 4 taps removed")])
    notes.add("b", "multiplies bfloat16")
    notes.add("a", "channels ordered")
    assert notes.of("a") == "3 of 4 taps removed; channels ordered"
    assert notes.of("b") == "multiplies bfloat16"
    assert notes.of("c") == ""


def test_a_copy_is_apart():
    notes = Notes()
    copy = Notes(notes)
    notes.add("a", "floats")
    assert len(notes) == 1 and not copy
