"""Buckets: never too small, least padding, and places for every entry."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats import buckets as module
from tvm_sparse.formats.buckets import Bucket, Buckets, fill

counts_lists = st.lists(st.integers(0, 12), min_size=1, max_size=9)


def least_slots(counts, limit):
    """Try all ways to cut the descending counts into at most `limit` runs."""
    sizes = sorted((max(1, c) for c in counts), reverse=True)
    best = len(sizes) * sizes[0]
    for number in range(1, limit):
        for cuts in itertools.combinations(range(1, len(sizes)), number):
            edges = [0, *cuts, len(sizes)]
            total = sum(sizes[a] * (b - a) for a, b in itertools.pairwise(edges))
            best = min(best, total)
    return best


@given(counts_lists, st.integers(1, 4))
def test_fill_pads_least(counts, limit):
    buckets = fill(counts, limit)
    assert buckets.groups == len(counts)
    assert len(buckets.parts) <= limit
    assert buckets.slots == least_slots(counts, limit)
    counts = np.array(counts)
    order = buckets.order(counts, "test")
    assert (counts[order] <= buckets.slots_of).all()


def test_many_different_counts_are_cut_at_marks(monkeypatch):
    counts = np.random.default_rng(0).integers(0, 400, 300)
    best = fill(counts, 4).slots
    monkeypatch.setattr(module, "MARKS", 32)
    coarse = fill(counts, 4)
    assert best <= coarse.slots <= 1.05 * best
    assert coarse.order(counts, "test").size == 300


def test_a_group_has_one_entry_at_least():
    assert fill([5, 0, 3], 1).parts == (Bucket(3, 5),)
    assert fill([5, 0, 3], 3).parts == (Bucket(1, 5), Bucket(1, 3), Bucket(1, 1))


def test_a_single_bucket_keeps_the_order():
    assert fill([1, 5, 2], 1).order(np.array([1, 5, 2]), "test").tolist() == [0, 1, 2]
    assert fill([1, 5, 2], 2).order(np.array([1, 5, 2]), "test").tolist() == [1, 2, 0]


def test_groups_that_do_not_fit_are_named():
    with pytest.raises(UnsupportedError, match="6 entries in group 1; expected at most 5"):
        fill([1, 5, 2], 2).order(np.array([1, 6, 2]), "test")


@given(st.integers(0, 2**32), st.integers(1, 3), st.sampled_from([0.0, 0.3, 1.0]))
def test_columns(seed, limit, density):
    kept = np.random.default_rng(seed).random((7, 9)) < density
    counts = kept.sum(1)
    buckets = fill(counts, limit)
    order = buckets.order(counts, "test")
    columns, used = buckets.columns(kept[order]), buckets.used(counts[order])
    for place, start, slots in zip(order, buckets.starts, buckets.slots_of, strict=True):
        found = np.flatnonzero(kept[place])
        rest = [int(kept[place].argmin())] * (slots - len(found))
        assert columns[start : start + slots].tolist() == [*found, *rest]
        assert used[start : start + slots].sum() == len(found)


def test_extents():
    buckets = Buckets((Bucket(2, 3), Bucket(1, 1)))
    assert (buckets.groups, buckets.slots) == (3, 7)
    assert buckets.starts.tolist() == [0, 3, 6]
