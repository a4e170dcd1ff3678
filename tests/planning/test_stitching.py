import copy

import pytest
import torch
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.planning.stitching import Stitched, Zeroed, drop_of, rows_of, similarity
from tvm_sparse.pruning.layers import select


class Encoder(nn.Module):
    """Returns a mapping of states of tokens and a number a sample."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, attention_mask):
        return {"states": self.fc(x), "length": attention_mask.sum(1)}


def test_the_drop_is_that_of_a_network_with_the_weights():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    changed, batches = copy.deepcopy(model), [torch.randn(5, 8), torch.randn(3, 8)]
    stitched = Stitched(changed, list(select(changed)), list(select(model)), batches)
    stitched.keep(0, 1, torch.zeros(8, 8))
    stitched.keep(1, 1, model[2].weight * 2)
    assert stitched.drop([0, 0]) == 0.0
    assert stitched.drop([0, 1]) > 0
    other = copy.deepcopy(model)
    nn.init.zeros_(other[0].weight)
    with torch.no_grad():
        pairs = [torch.cosine_similarity(other(x), model(x)) for x in batches]
    assert stitched.drop([1, 0]) == pytest.approx(1 - float(torch.cat(pairs).mean()), abs=1e-6)
    assert stitched.alone(0, 1) == stitched.drop([1, 0])
    assert stitched.drop([1, 1]) > 0
    assert stitched.drop([0, 1]) == pytest.approx(stitched.alone(1, 1))


def test_of_several_fits_that_counts_which_loses_least():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3)).eval()
    changed, batches = copy.deepcopy(model), [torch.randn(5, 8)]
    stitched = Stitched(changed, list(select(changed)), list(select(model)), batches)
    stitched.keep(0, 1, torch.zeros(8, 8))
    alone = stitched.drop([1, 0])
    other = copy.deepcopy(model)
    again = Stitched(other, list(select(other)), list(select(model)), batches)
    again.keep(0, 1, torch.zeros(8, 8))
    again.keep(0, 1, model[0].weight, fit=1)
    again.keep(1, 0, model[1].weight * 2, fit=1)
    assert again.alone(0, 1) == alone > again.drop([1, 0]) > 0
    assert again.drop([0, 0]) == 0.0  # nothing is pruned: nothing adapts


def test_weights_with_zeros_are_remembered_in_little_memory():
    whole = torch.randint(-9, 9, (6, 5, 3, 3)).float() * (torch.rand(6, 5, 3, 3) < 0.3)
    for weight in (whole, whole.contiguous(memory_format=torch.channels_last), whole[:, :, 0, 0].T):
        kept = Zeroed.of(weight)
        assert torch.equal(kept.whole().float(), weight)
        assert kept.values.numel() == int((weight != 0).sum())
        assert len(kept.places) == -(-weight.numel() // 8)


def test_tokens_that_are_masked_have_no_row_and_integers_are_no_output():
    batch = {"x": torch.randn(2, 3, 4), "attention_mask": torch.tensor([[1, 1, 0], [1, 0, 0]])}
    (rows,) = rows_of(Encoder()(**batch), batch)
    assert rows.shape == (3, 4)
    assert [tuple(r.shape) for r in rows_of((torch.zeros(2, 3, 4), torch.ones(5)), ())] == [
        (2, 12),
        (1, 5),
    ]


def test_similarity_of_rows():
    a = torch.tensor([[1.0, 0], [0, 2], [0, 0], [0, 0]])
    b = torch.tensor([[0.0, 1], [0, 1], [0, 0], [1, 0]])
    assert similarity(a, b).tolist() == [0, 1, 1, 0]
    numbers = torch.tensor([[1.0], [-1]])
    assert similarity(numbers, numbers).tolist() == [1]
    assert similarity(numbers, -numbers).item() == pytest.approx(-1)


def test_each_output_counts_the_same():
    wanted = [[torch.eye(2), torch.eye(3)]]
    found = [[torch.eye(2).flip(0), torch.eye(3)]]
    assert drop_of(found, wanted) == pytest.approx(0.5)


def test_a_model_without_floats_is_refused():
    class Whole(nn.Module):
        def forward(self, x):
            return x.argmax(-1)

    with pytest.raises(InputError, match="returns no floats"):
        Stitched(Whole(), [], [], [torch.zeros(2, 3)])
