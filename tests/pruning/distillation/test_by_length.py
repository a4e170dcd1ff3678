"""Batches of equal lengths: nothing is lost, padded or too large."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.errors import InputError
from tvm_sparse.pruning import batches_by_length


@given(
    sequences=st.lists(st.lists(st.integers(0, 99), max_size=6), max_size=30),
    tokens=st.integers(1, 40),
    seed=st.integers(0, 3),
)
def test_every_sequence_is_in_one_batch(sequences, tokens, seed):
    batches = [batch["input_ids"] for batch in batches_by_length(sequences, tokens, seed)]
    found = Counter(tuple(row.tolist()) for batch in batches for row in batch)
    assert found == Counter(tuple(s) for s in sequences if s)
    assert all(len(batch) == 1 or batch.numel() <= tokens for batch in batches)


def test_no_tokens_are_refused():
    with pytest.raises(InputError, match="tokens"):
        batches_by_length([[1]], 0)
