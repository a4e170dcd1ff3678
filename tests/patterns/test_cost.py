"""The cost model orders formats as kernels do."""

import pytest

from tvm_sparse.patterns.cost import index_bits, modelled


def test_dense_costs_one():
    cost = modelled(1000, 1000, 0, 4)
    assert (cost.relative, cost.nbytes, cost.flops) == (pytest.approx(1), 4000, 2000)


def test_padding_indices_and_lookups_cost():
    plain = modelled(1000, 250, 0, 4).relative
    assert modelled(1000, 300, 0, 4).relative > plain
    assert modelled(1000, 250, 1000, 4).relative > plain
    assert modelled(1000, 250, 0, 4, lookups=0.5).relative > plain
    assert modelled(0, 0, 0, 4).relative == 0


def test_index_bits():
    assert [index_bits(n) for n in (1, 2, 3, 16, 17, 25)] == [1, 1, 2, 4, 5, 5]
