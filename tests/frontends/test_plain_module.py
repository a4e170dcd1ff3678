"""Wrappers are taken off; what has no source or no values is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.errors import InputError

X = torch.randn(2, 8)


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_wrappers_are_taken_off(wrap):
    model = nn.Linear(8, 4).eval()
    assert list(ts.load(wrap(model), (X,)).weights) == ["weight", "bias"]


@pytest.mark.parametrize("make", [torch.jit.script, lambda m: torch.jit.trace(m, X)])
@pytest.mark.filterwarnings("ignore")
def test_a_script_module_is_refused(make):
    with pytest.raises(InputError, match=r"model 'Linear': is a ScriptModule.*torch.jit.script"):
        ts.load(make(nn.Linear(8, 4)), (X,))


def test_weights_without_values_or_shape():
    with pytest.raises(InputError, match="weight 'weight': is on the meta device; expected values"):
        ts.load(nn.Linear(8, 4, device="meta"), (X,))
    with pytest.raises(InputError, match=r"has no shape yet.*run the model once"):
        ts.load(nn.LazyLinear(4), (X,))
