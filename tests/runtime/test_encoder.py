"""Vectors of sentences are those of each sentence alone, whatever stands beside it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse_runtime.encoder import SentenceEncoder
from tvm_sparse_runtime.errors import SparseRuntimeError

pytestmark = pytest.mark.filterwarnings("ignore::tvm_sparse.errors.SlowKernelWarning")
TEXTS = ["a bb ccc", "a", "", "dddd a bb ccc e", "bb"]


class Words:
    """A tokeniser: a token is a word, its number the word's length; cut as it is told."""

    truncation = None

    def __init__(self, begin: int = 1) -> None:
        self.begin, self.most = begin, None

    def enable_truncation(self, most: int) -> None:
        self.most = most

    def no_padding(self) -> None:
        pass

    def encode_batch(self, texts: list[str]) -> list[SimpleNamespace]:
        rows = [([self.begin] + [len(w) for w in text.split()])[: self.most] for text in texts]
        return [SimpleNamespace(ids=r, attention_mask=[1] * len(r)) for r in rows]


class Net(nn.Module):
    """Every token sees the mean of those that count."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(16, 8), nn.Linear(8, 6)

    def forward(self, input_ids, attention_mask):
        """Return (batch, tokens, 6)."""
        states, mask = self.words(input_ids), attention_mask[:, :, None].float()
        mean = (states * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
        return self.out(states + mean)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return Net().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def opened(net):
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", max=64)}
    example = torch.ones(2, 4, dtype=torch.int64)
    return ts.compile(net, (example, example), dynamic_shapes=(axes, axes))


def _alone(net, text: str, pooling: str) -> np.ndarray:
    (row,) = Words().encode_batch([text])
    ids = torch.tensor([row.ids])
    states = net(ids, torch.ones_like(ids))[0]
    vector = states[0] if pooling == "cls" else states.mean(0)
    return (vector / vector.norm()).numpy()


@pytest.mark.grid
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("batch", [1, 2, 32])
def test_vectors_are_those_of_each_text_alone(net, opened, pooling, batch):
    encoder = SentenceEncoder(opened, Words(), pooling=pooling)
    found = encoder.encode(TEXTS, batch_size=batch)
    wanted = np.stack([_alone(net, text, pooling) for text in TEXTS])
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(TEXTS[0]), wanted[0], atol=1e-6)


def test_fixed_extents_are_filled_and_cut(net):
    example = torch.ones(4, 3, dtype=torch.int64)
    encoder = SentenceEncoder(ts.compile(net, (example, example)), Words())
    assert encoder.longest == 3
    wanted = [_alone(net, " ".join(text.split()[:2]), "mean") for text in TEXTS]
    np.testing.assert_allclose(encoder.encode(TEXTS), np.stack(wanted), atol=1e-6)


class Sums(nn.Module):
    """Counts every token, for it takes no mask."""

    def forward(self, input_ids):
        """Return (batch, 2): sums and numbers of tokens."""
        return torch.stack([input_ids.sum(1), torch.ones_like(input_ids).sum(1)], 1).float()


def test_without_a_mask_only_equal_lengths_run_together():
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    library = ts.compile(Sums(), (torch.ones(2, 4, dtype=torch.int64),), dynamic_shapes=(axes,))
    encoder = SentenceEncoder(library, Words(), normalize=False)
    wanted = [[1 + len(t.replace(" ", "")), 1 + len(t.split())] for t in TEXTS]
    np.testing.assert_array_equal(encoder.encode(TEXTS), wanted)


def test_an_artifact_bounds_the_length_and_no_text_gives_no_vector(opened):
    encoder = SentenceEncoder(opened, Words())
    assert encoder.longest == 64
    assert encoder.encode([]).shape == (0, 6)
    assert len(encoder.encode(["a " * 100])) == 1


def test_what_cannot_be_is_one_clear_error(opened, tmp_path):
    for options, part in (
        ({"pooling": "max"}, "'mean' or 'cls'"),
        ({"output": "other"}, "one of output"),
    ):
        with pytest.raises(SparseRuntimeError, match=part):
            SentenceEncoder(opened, Words(), **options)
    with pytest.raises(SparseRuntimeError, match="at least 1"):
        SentenceEncoder(opened, Words()).encode(["a"], batch_size=0)
    with pytest.raises(SparseRuntimeError, match=r"tokenizer\.json"):
        SentenceEncoder(opened, tmp_path)
    other = ts.compile(nn.Linear(8, 8), (torch.ones(2, 8),))
    with pytest.raises(SparseRuntimeError, match="input_ids, attention_mask"):
        SentenceEncoder(other, Words())
