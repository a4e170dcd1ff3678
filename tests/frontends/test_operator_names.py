"""Operators are called what documentation calls them."""

from __future__ import annotations

import operator

import pytest
import torch

from tvm_sparse.frontends.program.operator_names import operator_name

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (aten.bmm.default, "torch.bmm"),
        (aten.linalg_lstsq.default, "torch.linalg.lstsq"),
        (aten.special_airy_ai.default, "torch.special.airy_ai"),
        (aten._unique2.default, "torch.unique"),
        (aten.exponential.default, "torch.Tensor.exponential_"),
        (aten.normal_functional.default, "torch.normal"),
        (aten.native_dropout.default, "torch.nn.functional.dropout"),
        (aten._local_scalar_dense.default, "torch.Tensor.item"),
        (aten.index.Tensor, "indexing"),
        (operator.getitem, "indexing"),
        (operator.add, "add of numbers"),
        (torch.ops.higher_order.while_loop, "while_loop"),
        (torch.ops.prims.frexp.default, "torch.frexp"),
    ],
)
def test_names(target, name):
    assert operator_name(target) == name
