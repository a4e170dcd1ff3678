"""Batches of sequences that need no padding."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from tvm_sparse.errors import InputError


def batches_by_length(
    sequences: Sequence[Sequence[int]], tokens: int = 1024, seed: int = 0
) -> list[dict[str, Tensor]]:
    """Return ``sequences`` of token numbers as batches of equal lengths, in a random order.

    Nothing is padded, and shapes repeat, which lets libraries reuse the kernels that they made.

    Parameters
    ----------
    sequences
        Token numbers of each, of any length.
    tokens
        A batch has as many sequences as fit into so many tokens, one at least.
    seed
        Of the order.

    Returns
    -------
    Mappings with ``input_ids`` (sequences, length), int64, as transformers take them.
    """
    if tokens < 1:
        raise InputError("tokens", str(tokens), "1 or more")
    lengths: dict[int, list[Sequence[int]]] = {}
    order = random.Random(seed)
    for sequence in order.sample(list(sequences), len(sequences)):
        if len(sequence):
            lengths.setdefault(len(sequence), []).append(sequence)
    found = []
    for length, same in lengths.items():
        size = max(1, tokens // length)
        found += [torch.tensor(same[i : i + size]) for i in range(0, len(same), size)]
    order.shuffle(found)
    return [{"input_ids": batch} for batch in found]
