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


def pruned(teacher):
    student = copy.deepcopy(teacher)
    balanced(student, 0.5).squash_mask()
    return student


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_zeros_hold_in_every_precision(precision):
    teacher = encoder()
    student = pruned(teacher)
    zeros = {k: v == 0 for k, v in student.state_dict().items()}
    losses = distil(student, teacher, batches(), 40, precision=precision)
    assert losses[-1] < 0.6 * losses[0]
    for key, value in student.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value == 0, zeros[key]) or not zeros[key].all() or "bias" in key
        assert (value[zeros[key]] == 0).all() or "bias" in key


@pytest.mark.parametrize("more", [{}, {"average": 0.9}, {"accumulate": 3}])
def test_an_interrupted_run_goes_on_exactly(tmp_path, more):
    teacher = encoder()
    whole, parted = pruned(teacher), pruned(teacher)
    options = {**more, "precision": "float32"}
    losses = distil(whole, teacher, batches(), 9, **options)

    def stop(step, steps, loss):
        if step == 4:
            raise KeyboardInterrupt

    file = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        distil(parted, teacher, batches(), 9, resume=file, progress=stop, **options)
    again = pruned(teacher)
    assert distil(again, teacher, batches(), 9, resume=file, **options) == losses
    for name, value in again.state_dict().items():
        assert torch.equal(value, whole.state_dict()[name]), name
    assert [p.name for p in tmp_path.iterdir()] == ["run.pt"]


def test_another_run_and_a_damaged_file_are_refused(tmp_path):
    teacher, file = encoder(), tmp_path / "run.pt"
    distil(pruned(teacher), teacher, batches(), 1, resume=file)
    with pytest.raises(InputError, match="another plan"):
        distil(pruned(teacher), teacher, batches(), 2, resume=file)
    with pytest.raises(InputError, match="another first batch"):
        distil(pruned(teacher), teacher, batches()[1:], 1, resume=file)
    for damage in (b"", b"x" * 100, file.read_bytes()[:-200]):
        file.write_bytes(damage)
        with pytest.raises(InputError, match=r"run\.pt.*cannot be read"):
            distil(pruned(teacher), teacher, batches(), 1, resume=file)


def test_an_average_lies_between_the_weights_of_steps():
    teacher = encoder()
    students = [pruned(teacher) for _ in range(3)]
    first = students[0].state_dict()["blocks.0.inner.weight"].clone()
    for student, average in zip(students, (None, 0.999, 0.0), strict=True):
        distil(student, teacher, batches(), 5, average=average)
    plain, slow, none = (s.state_dict()["blocks.0.inner.weight"] for s in students)
    assert torch.equal(plain, none)
    assert 0 < (slow - first).norm() < 0.1 * (plain - first).norm()


def test_single_samples_together_are_a_batch():
    teacher = encoder()
    whole, single = pruned(teacher), pruned(teacher)
    singles = [
        {k: x[None] for k, x in zip(b, rows)} for b in batches(2) for rows in zip(*b.values())
    ]
    wanted = distil(whole, teacher, batches(2), 4, precision="float32")
    found = distil(single, teacher, singles, 4, precision="float32", accumulate=8)
    assert found == pytest.approx(wanted, rel=1e-3)
    for name, value in single.state_dict().items():
        torch.testing.assert_close(value, whole.state_dict()[name], rtol=1e-3, atol=1e-4)


def test_time_ends_a_run():
    teacher, told = encoder(), []
    losses = distil(
        pruned(teacher),
        teacher,
        batches(),
        seconds=0.3,
        progress=lambda step, steps, loss: told.append((step, steps)),
    )
    assert len(told) == len(losses) > 0
    assert told[-1][0] >= told[-1][1]
    assert len(distil(pruned(teacher), teacher, batches(), 2, seconds=600)) == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "has no end"),
        ({"steps": -1}, "steps"),
        ({"seconds": -1}, "seconds"),
        ({"steps": 1, "average": 1}, "average"),
        ({"steps": 1, "accumulate": 0}, "accumulate"),
        ({"steps": 1, "precision": "float16"}, "precision"),
        ({"steps": 1, "losses": {"kl": 1}, "match": ["blocks.0"]}, "match"),
        ({"steps": 1, "losses": {"nothing": 1}}, "no module"),
        ({"steps": 1, "losses": {"attention": 1}}, "no such modules"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, named):
    teacher = encoder()
    with pytest.raises(InputError, match=named):
        distil(pruned(teacher), teacher, batches(), **options)


def test_a_teacher_that_is_another_network_is_refused():
    student = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    shorter, wider = nn.Sequential(nn.Linear(4, 2)), nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    batch = [torch.randn(5, 4)]
    with pytest.raises(InputError, match="teacher: has no module '1', which the student has"):
        distil(student, shorter, batch, steps=1, losses={"1": 1})
    with pytest.raises(InputError, match=r"teacher: gives \(5, 1\); expected .*\(5, 2\)"):
        distil(student, wider, batch, steps=1, losses={"outputs": 1})
    with pytest.raises(InputError, match=r"teacher, module '0': gives \(5, 2\)"):
        distil(student, shorter, batch, steps=1, losses={"0": 1})
