"""Layers of small integers: what the executor of PTX gives for them equals PyTorch exactly."""

from __future__ import annotations

import ml_dtypes
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.frontends.load import load
from tvm_sparse.testing import emulate


def integers(model, block=1):
    """Give parameters small integers, so that sums are exact: 70 % of the blocks are zero."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            values = torch.randint(-1, 2, parameter.shape, generator=generator).float()
            if parameter.dim() > 1:
                rows, cols = parameter.shape[0], parameter[0].numel()
                grid = -(-rows // block), -(-cols // block)
                kept = torch.rand(grid, generator=generator) < 0.3
                kept = kept.repeat_interleave(block, 0).repeat_interleave(block, 1)
                values *= kept[:rows, :cols].reshape(parameter.shape)
            parameter.copy_(values)
    return model.eval()


def check(model, x, force, batches=(None,)):
    """Compile with forced formats and compare what is executed with PyTorch, exactly."""
    dynamic = batches != (None,)
    source = load(model, (x,), dynamic_batch=True) if dynamic else model
    inputs = () if dynamic else ((x,),)
    config = ts.Config(force=force)
    library = ts.compile(source, *inputs, target="cuda:sm_90", config=config)
    assert {d.layer: d.chosen for d in library.decisions}.items() >= force.items()
    for batch in batches:
        part = x if batch is None else x[:batch]
        emulation = emulate(library, array(part))
        assert not emulation.report.findings, emulation.report.findings
        with torch.no_grad():
            wanted = model(part)
        got = torch.from_numpy(emulation.outputs[0].astype("f4"))
        assert torch.equal(got, wanted.float())


def array(tensor):
    """Return ``tensor`` as NumPy's array, which for bfloat16 PyTorch does not give."""
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def sample(shape, dtype):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(-2, 3, shape, generator=generator).to(dtype)


class Branch(nn.Module):
    """A layer with activation and residual behind it, rounded to a few values again."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        y = torch.clamp(torch.relu(self.layer(x)), 0, 2)
        return y + x if y.shape == x.shape else y
