"""A fixed part of PyTorch's operators with an open axis with every run, all as slow tests."""

from __future__ import annotations

import pytest
import torch

from tests.suites.opened_samples import opened
from tests.suites.outcomes import broken
from tests.suites.workers import cases, results

SUITE = "tests.suites.opened"
EVERY = 230


class Sample:
    def __init__(self, *tensors, **kwargs):
        self.input, *self.args = tensors
        self.kwargs = kwargs


def test_axes_that_have_one_extent_are_opened_together():
    case = opened(torch.mm, Sample(torch.rand(3, 5), torch.rand(5, 4)), -1)
    assert case.axes == ((0, 1), (1, 0)) and case.low == 1
    assert [x.shape for x in case.at(7)] == [(3, 7), (7, 4)]
    assert torch.equal(case.at(7)[0][:, :5], case.inputs[0])


def test_numbers_follow_from_the_extent():
    case = opened(torch.Tensor.view, Sample(torch.rand(6, 1), (6,)), 0)
    assert case.call(torch.rand(9, 1)).shape == (9,)


def test_what_runs_at_one_size_alone_is_not_opened():
    assert opened(torch.Tensor.view, Sample(torch.rand(6, 2), (3, 4)), 0) is None


def test_transposed_convolutions_whose_extents_have_several_forms():
    (result,) = results(SUITE, ["nn.functional.conv_transpose2d float32 -1"])
    assert (result.outcome, result.reason) == ("right", "")


@pytest.mark.timeout(1200)
def test_a_few_are_right_or_refused():
    assert broken(results(SUITE, cases(SUITE)[::EVERY])) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_all_are_right_or_refused():
    assert broken(results(SUITE, cases(SUITE))) == []
