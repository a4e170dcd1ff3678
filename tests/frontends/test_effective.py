"""Effective weights of masked and of sparse tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.sparse._semi_structured_conversions import sparse_semi_structured_from_dense_cutlass

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.modules.effective import effective, inference_copy, is_sparse, to_numpy


def semi_structured(weight: torch.Tensor) -> torch.Tensor:
    """The 2:4 tensor that ``to_sparse_semi_structured`` makes, which itself wants a GPU."""
    packed, meta = sparse_semi_structured_from_dense_cutlass(weight)
    kind = torch.sparse.SparseSemiStructuredTensorCUTLASS
    nothing = {"packed_t": None, "meta_t": None, "compressed_swizzled_bitmask": None}
    return kind(weight.shape, packed=packed, meta=meta, requires_grad=False, **nothing)


LAYOUTS = {
    "coo": torch.Tensor.to_sparse,
    "csr": torch.Tensor.to_sparse_csr,
    "csc": torch.Tensor.to_sparse_csc,
    "bsr": lambda w: w.to_sparse_bsr((4, 4)),
    "bsc": lambda w: w.to_sparse_bsc((4, 4)),
    "semi_structured": semi_structured,
}


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
@pytest.mark.filterwarnings("ignore:The PyTorch API of SparseSemiStructuredTensor")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_weights_and_buffers_come_dense_with_the_same_zeros(layout):
    weight = torch.randn(32, 64).half()
    weight.view(-1, 4)[:, 1:3] = 0
    stored = LAYOUTS[layout](weight)
    module = nn.Linear(64, 32, bias=False)
    module.weight = nn.Parameter(stored, requires_grad=False)
    module.register_buffer("table", stored)
    copy = inference_copy(module)
    for tensor in (copy.weight, copy.table):
        assert not is_sparse(tensor)
        assert np.array_equal(to_numpy(tensor, "w"), weight)
    assert is_sparse(module.weight) and is_sparse(module.table)
    assert np.array_equal(to_numpy(effective(module, "weight"), "w"), weight)


def test_tensors_that_no_mask_changes_are_shared():
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    copy = inference_copy(module)
    assert copy[0].weight is module[0].weight
    assert copy[1].running_mean is module[1].running_mean


def test_no_copy_of_a_dense_tensor():
    tensor = torch.randn(3, 4)
    assert to_numpy(tensor, "w").ctypes.data == tensor.data_ptr()
    assert np.array_equal(to_numpy(tensor.T, "w"), tensor.T)


def test_a_tensor_without_values_is_refused():
    with pytest.raises(InputError, match="is on the meta device"):
        to_numpy(torch.empty(2, device="meta"), "a.b")
