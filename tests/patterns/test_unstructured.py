"""Unstructured sparsity: the whole matrix is ranked, and every mask is explained."""

import numpy as np
import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.unstructured import Unstructured


def test_project_keeps_the_largest_of_all():
    scores = np.array([[3.0, 1, 4], [1, 5, 9]])
    mask = Unstructured().project(scores, 0.5)
    assert mask.tolist() == [[False, False, True], [False, True, True]]
    with pytest.raises(InputError, match="no sparsity"):
        Unstructured().project(scores)


def test_cost_counts_padding_to_the_longest_of_sixteen_rows():
    weight = np.zeros((32, 100))
    weight[:, 0] = 1
    weight[3, :50] = 1
    fit = Unstructured.detect(weight)
    assert fit.cost.flops == 2 * (16 * 50 + 16 * 1)
    assert fit.evidence.padding == pytest.approx(1 - (32 + 49) / (16 * 51))
    assert fit.evidence.chance == 1


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_matrices_of_zeros_or_without_any_are_not_unstructured(value):
    assert Unstructured.detect(np.full((4, 4), value)) is None
