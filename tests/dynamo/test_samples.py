"""Samples of weights change with whatever writes a whole weight."""

import pytest
import torch

from tvm_sparse.dynamo.samples import differs, samples


def on_device(tensors):
    """Return what is asked of weights on a device."""
    return differs([], tensors)


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (130, 70), (2, 3, 4, 5)])
@pytest.mark.parametrize("samples", [samples, on_device])
def test_a_write_of_everything_is_seen(samples, shape, dtype):
    weight = (torch.rand(shape) * 50 + 1).to(dtype)
    changed = samples([torch.ones(3), weight])
    assert not changed() and not changed()
    before = weight.clone()
    weight.data.add_(3)
    assert changed() and changed()
    weight.data.copy_(before)
    assert not changed()


@pytest.mark.parametrize("samples", [samples, on_device])
def test_masks_and_other_strides(samples):
    weight = torch.randn(64, 48)
    weight[::2] = 0
    tensors = weight.t(), weight[:, ::3], torch.zeros(0), torch.zeros(4)
    changed = samples(tensors)
    assert not changed()
    tensors[3].add_(1)
    assert changed()
    tensors[3].zero_()
    weight.data.mul_(weight.abs() > 0.5)
    assert changed()
