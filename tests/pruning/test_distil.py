"""Distillation: the student comes nearer to its teacher, zeros stay, nothing else changes."""

import copy

import pytest
import torch
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning import balanced, distil


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inner, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.norm(x + self.dropout(torch.relu(self.inner(x))))


class Encoder(nn.Module):
    """Tokens through blocks; returns a mapping, as transformers do."""

    def __init__(self):
        super().__init__()
        self.embedding, self.blocks = nn.Embedding(20, 16), nn.ModuleList(Block() for _ in range(3))

    def forward(self, input_ids, attention_mask=None):
        x = self.embedding(input_ids)
        for block in self.blocks:
            x = block(x)
        return {"states": x, "ids": input_ids}


def encoder():
    torch.manual_seed(0)
    return Encoder()


def batches(count=4):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(20, (count, 8, 6), generator=generator)
    return [{"input_ids": x, "attention_mask": torch.ones_like(x)} for x in ids]


@pytest.mark.parametrize("squashed", [False, True])
def test_the_student_learns_and_zeros_stay(squashed):
    teacher = encoder()
    student = copy.deepcopy(teacher)
    pruner = balanced(student, 0.5)
    masks = {k: v.clone() for k, v in pruner.masks.items()}
    if squashed:
        pruner.squash_mask()
    before = copy.deepcopy(teacher.state_dict())
    embedding = student.embedding.weight.clone()
    losses = distil(student, teacher, batches(), 60)
    assert len(losses) == 60
    assert losses[-1] < 0.5 * losses[0]
    if not squashed:
        assert all(torch.equal(v, masks[k]) for k, v in pruner.masks.items())
        pruner.squash_mask()
    for key, mask in masks.items():
        weight = student.get_parameter(key)
        assert (weight[~mask] == 0).all()
        assert (weight[mask] != 0).all()
    assert torch.equal(student.embedding.weight, embedding)
    assert all(torch.equal(v, before[k]) for k, v in teacher.state_dict().items())
    assert student.state_dict().keys() == before.keys()
    assert student.training


def test_padding_does_not_count():
    teacher = encoder()
    student = copy.deepcopy(teacher)
    balanced(student, 0.5).squash_mask()
    plain, padded = batches(1), batches(1)
    padded[0]["input_ids"] = torch.cat([plain[0]["input_ids"], torch.full((8, 3), 7)], 1)
    padded[0]["attention_mask"] = torch.cat(
        [plain[0]["attention_mask"], torch.zeros(8, 3, dtype=torch.long)], 1
    )
    first = distil(copy.deepcopy(student), teacher, plain, 1)
    second = distil(copy.deepcopy(student), teacher, padded, 1)
    # The network's own output mapping is compared, too: tokens (batch, length, width).
    assert first == pytest.approx(second, rel=1e-5)


def test_matched_modules_and_a_backward_of_ones_own():
    teacher = encoder()
    student = copy.deepcopy(teacher)
    balanced(student, 0.5)
    called = []

    def backward(loss):
        called.append(loss)
        loss.backward()

    losses = distil(
        student, teacher, iter(batches()), 6, match=["blocks.2.norm"], backward=backward
    )
    assert len(called) == len(losses) == 6
    with pytest.raises(InputError, match="no module"):
        distil(student, teacher, batches(), 1, match=["blocks.9"])


def test_no_batch_and_a_loss_that_is_not_finite_are_refused():
    teacher, student = encoder(), encoder()
    with pytest.raises(InputError, match="no batch"):
        distil(student, teacher, [], 1)
    with torch.no_grad():
        student.blocks[0].inner.weight[0, 0] = float("nan")
    with pytest.raises(InputError, match="loss is nan"):
        distil(student, teacher, batches(), 1)


def test_progress_and_distributed_data_parallel(tmp_path):
    teacher = encoder()
    student = copy.deepcopy(teacher)
    balanced(student, 0.5)
    seen = []
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1
    )
    try:
        wrapped = nn.parallel.DistributedDataParallel(student, find_unused_parameters=True)
        alone = distil(copy.deepcopy(student), teacher, batches(), 3)
        losses = distil(
            wrapped, teacher, batches(), 3, progress=lambda *told: seen.append(told[:2])
        )
    finally:
        torch.distributed.destroy_process_group()
    assert losses == pytest.approx(alone, rel=1e-5)
    assert seen == [(1, 3), (2, 3), (3, 3)]
