"""Inputs are made with labels, and what reads them perfectly has the whole score."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.cases import synthetic_data, trained_files

FILES = {case.name: case for case in trained_files.FILES}


def test_names_and_files_are_named_once():
    assert len(FILES) == len(trained_files.FILES)
    assert len({(case.package, case.file) for case in trained_files.FILES}) == len(FILES)


def test_text_that_is_read_whole_has_the_whole_score():
    text, alphabet = "ab a", ["-", "a", "b", " "]
    classes = np.array([0, 1, 1, 0, 2, 3, 1, 0])  # blanks and repetitions
    score = FILES["PP-OCRv4 text recognition"].score
    assert score([np.eye(4)[classes][None]], [], (text, alphabet)) == 1
    assert score([np.zeros((1, 8, 4))], [], (text, alphabet)) == 0


def test_a_pitch_is_right_within_50_cents():
    score = FILES["swift-f0 pitch"].score
    frames = np.full((1, 16), 440.0)
    assert score([frames], [], 440.0 * 2 ** (0.4 / 12)) == 1
    assert score([frames], [], 440.0 * 2 ** (0.6 / 12)) == 0


@pytest.mark.parametrize("name", ["PP-OCRv4 text detection", "DNSMOS", "basic-pitch"])
def test_calls_are_the_same_for_a_seed(name, tmp_path):
    one, other = (FILES[name].calls(tmp_path, 3, 1)[0].feed for _ in range(2))
    (key,) = one
    assert np.array_equal(one[key], other[key]) and one[key].dtype == np.float32
    assert not np.array_equal(FILES[name].calls(tmp_path, 4, 1)[0].feed[key], one[key])


def test_files_are_cut_to_their_ends():
    assert trained_files._padded(b"abc", 0)[:4] == [97, 98, 99, 256]
    assert trained_files._padded(b"abc", 1)[-4:] == [256, 97, 98, 99]
    assert len(trained_files._padded(b"x" * 4000, 1)) == 1024


def test_speech_and_lines_have_the_extents_asked_for():
    assert synthetic_data.speech(np.random.default_rng(0), 0.5).shape == (8000,)
    picture = synthetic_data.line("word", 48, 320)
    assert synthetic_data.tensor(picture).shape == (1, 3, 48, 320)
    assert len(synthetic_data.words(random.Random(0), 3).split()) == 3
