"""Real kernels with a mistake put into their PTX: each is found."""

from __future__ import annotations

import re

import pytest

from benchmarks.gpu.executed import execute
from benchmarks.gpu.operators import OPERATORS
from tests.cuda.kernels import needs_nvrtc

pytestmark = needs_nvrtc

BARRIER = re.compile(r"bar\.sync[^;]*;")
WAIT = re.compile(r"cp\.async\.wait_group (\d+)")
COPY = re.compile(r"cp\.async\.cg\.shared\.global \[(%r\d+)\], \[(%rd\d+)\]")
MATRIX = re.compile(r"ldmatrix\S+ \{[^}]*\}, \[(%r\d+)\]")
PRODUCT = re.compile(r"mma\S+ \{[^}]*\}, \{(%r\d+),(%r\d+)")
PARTIAL = re.compile(r"st\.global\.v\d\.\w+[^;]*;")
SECOND = re.compile(r"(add\.f32\s+%f\d+, )(%f\d+)(, %f\d+;)")
SELECTOR = re.compile(r"mma\.sp\S+ .*, 0x([01]);")


class Mutation:
    """Changes match ``which`` of a pattern, or all of them."""

    def __init__(self, pattern, group, new, which=0):
        self.pattern, self.group, self.new, self.which = pattern, group, new, which

    def __call__(self, text):
        found = list(self.pattern.finditer(text))
        chosen = found[self.which]
        start, end = chosen.span(self.group)
        return text[:start] + self.new(chosen.group(self.group)) + text[end:]


def kinds(layer, dtype, emulator, change):
    executed = execute(OPERATORS[layer], dtype, emulator, change)
    return executed.error, {finding.kind for finding in executed.report.findings}


def drop(_):
    return ""


@pytest.mark.grid
@pytest.mark.parametrize(
    ("layer", "dtype", "which"),
    [
        ("dense", "float16", 0),
        ("dense", "float16", 6),
        ("balanced", "float16", 1),
        ("balanced, N = 8", "float16", 0),
        ("2:4", "float16", 2),
        ("depthwise taps", "float32", 0),
        ("depthwise + pointwise", "float16", 1),
        ("joint", "float32", 1),
    ],
)
def test_a_dropped_barrier_is_a_race(layer, dtype, which, emulator):
    _, found = kinds(layer, dtype, emulator, Mutation(BARRIER, 0, drop, which))
    assert "race" in found


@pytest.mark.grid
@pytest.mark.parametrize(
    ("layer", "which"), [("dense", 0), ("dense", 3), ("balanced", 1), ("2:4", 2), ("joint", 2)]
)
def test_a_wait_for_too_few_copies(layer, which, emulator):
    more = Mutation(WAIT, 1, lambda count: str(int(count) + 1), which)
    _, found = kinds(layer, "float16", emulator, more)
    assert "unfinished copy" in found


@pytest.mark.grid
@pytest.mark.parametrize("layer", ["dense", "balanced", "2:4"])
def test_a_copy_to_the_next_place(layer, emulator):
    _, found = kinds(layer, "float16", emulator, Mutation(COPY, 1, lambda at: f"{at}+16"))
    assert found & {"uninitialised", "race", "unfinished copy"}


@pytest.mark.parametrize("layer", ["dense", "block"])
def test_a_copy_from_the_next_place(layer, emulator):
    error, _ = kinds(layer, "float16", emulator, Mutation(COPY, 2, lambda at: f"{at}+16"))
    assert error > 0


def test_a_copy_beyond_the_end(emulator):
    beyond = Mutation(COPY, 2, lambda at: f"{at}+262144")
    _, found = kinds("dense", "float16", emulator, beyond)
    assert "out of bounds" in found


def test_a_copy_that_is_not_aligned(emulator):
    _, found = kinds("dense", "float16", emulator, Mutation(COPY, 2, lambda at: f"{at}+2"))
    assert "misaligned" in found


@pytest.mark.parametrize(
    "mutation",
    [
        Mutation(MATRIX, 1, lambda at: f"{at}+16"),
        Mutation(MATRIX, 0, lambda text: text.replace(".x4.", ".x4.trans.", 1)),
        Mutation(PRODUCT, 1, lambda register: "%r1"),
    ],
    ids=["wrong column", "transposed", "wrong register"],
)
def test_a_wrong_lane_of_a_matrix(mutation, emulator):
    error, found = kinds("dense", "float16", emulator, mutation)
    assert error > 0 or found


def test_the_other_half_of_the_metadata(emulator):
    other = Mutation(SELECTOR, 1, lambda selector: str(1 - int(selector)))
    error, found = kinds("2:4", "float16", emulator, other)
    assert error > 0 or found


def test_a_wrong_distance_of_a_shuffle(emulator):
    def shorter(text):
        new, count = re.subn(
            r"(shfl\.sync\.down\.b32 .*, )%r\d+(, %r\d+, %r\d+;)", r"\g<1>1\2", text
        )
        assert count
        return new

    error, _ = kinds("balanced, N = 1", "float32", emulator, shorter)
    assert error > 0


@pytest.mark.grid
@pytest.mark.parametrize("layer", ["dense in parts", "balanced in parts"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_partial_sums_that_are_not_stored(layer, dtype, emulator):
    kinds(layer, dtype, emulator, str)  # memory that this has written counts as unwritten again
    _, found = kinds(layer, dtype, emulator, Mutation(PARTIAL, 0, drop))
    assert "uninitialised" in found


@pytest.mark.grid
@pytest.mark.parametrize("layer", ["dense in parts", "balanced, N = 8, in parts"])
def test_a_lost_partial_sum(layer, emulator):
    """The second kernel, the last one of the text, leaves out what it has added so far."""

    def lost(text):
        start = text.rindex(".entry")
        zero = SECOND.sub(r"\g<1>0f00000000\g<3>", text[start:], count=8)
        assert zero != text[start:]
        return text[:start] + zero

    error, found = kinds(layer, "float32", emulator, lost)
    assert error > 0
    assert not found


def test_a_stream_that_reads_the_first_part_twice(emulator):
    """Thread blocks of the second part of the reduction read what those of the first do."""

    def again(text):
        start = text.index(".entry main_kernel(")
        body, count = re.subn(r"(mov\.u32\s+%r\d+, )%ctaid\.x;", r"\g<1>0;", text[start:], count=1)
        assert count
        return text[:start] + body

    error, found = kinds("balanced, N = 8, in parts", "float32", emulator, again)
    assert error > 0 or "uninitialised" in found
