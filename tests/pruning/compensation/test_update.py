import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_sparse.pruning.compensation.update import (
    damped,
    damping_of,
    inverse_factor,
    refit,
    saliency,
    solution,
    sweep,
)


def problem(seed, parts=1, rows=3, columns=6, samples=40):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(parts, samples, columns, generator=generator, dtype=torch.float64)
    weight = torch.randn(parts, rows, columns, generator=generator, dtype=torch.float64)
    return inputs, weight, torch.rand(parts, rows, columns, generator=generator) < 0.6


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 4), st.integers(1, 7))
def test_refit_is_the_least_squares_solution(seed, parts, rows, columns):
    inputs, weight, mask = problem(seed, parts, rows, columns)
    gram = inputs.mT @ inputs
    found = refit(weight, mask, gram, weight @ gram, columns)
    assert (found[~mask] == 0).all()
    for part, row in np.ndindex(parts, rows):
        kept = mask[part, row]
        wanted = inputs[part] @ weight[part, row]
        best = torch.linalg.lstsq(inputs[part][:, kept], wanted[:, None]).solution[:, 0]
        torch.testing.assert_close(found[part, row, kept], best, rtol=1e-8, atol=1e-9)


def test_one_factor_gives_the_inverse_and_the_solution():
    inputs, weight, _ = problem(4, parts=2)
    gram = inputs.mT @ inputs
    factor = inverse_factor(gram)
    assert torch.equal(factor, factor.triu())
    torch.testing.assert_close(factor.mT @ factor, torch.linalg.inv(gram))
    torch.testing.assert_close(solution(weight @ gram, factor), weight)


def test_no_steps_leave_the_weight():
    _, weight, mask = problem(0)
    gram = torch.eye(6, dtype=torch.float64)[None]
    assert torch.equal(refit(weight, mask, gram, weight, 0), weight * mask)


def test_saliency_is_what_removing_one_weight_costs():
    inputs, weight, _ = problem(1, columns=5)
    gram = inputs.mT @ inputs
    costs = saliency(weight, inverse_factor(gram))
    for row, column in np.ndindex(3, 5):
        mask = torch.ones_like(weight, dtype=torch.bool)
        mask[0, row, column] = False
        lost = refit(weight, mask, gram, weight @ gram, 20) - weight
        cost = ((lost @ gram) * lost).sum()
        torch.testing.assert_close(cost, costs[0, row, column], rtol=1e-9, atol=1e-12)


def test_the_last_columns_are_swept_exactly():
    # Removing columns from the left, nothing to the left adapts: the loss of one row with one
    # weight removed is that of the least-squares solution over the columns behind it.
    inputs, weight, _ = problem(2, rows=1, columns=5)
    factor = inverse_factor(inputs.mT @ inputs)
    for gone in range(5):
        mask = torch.ones(1, 1, 5, dtype=torch.bool)
        mask[..., gone] = False
        found, taken = sweep(weight, factor, 2, lambda scores, a, b, m=mask: m[..., a:b])
        assert torch.equal(taken, mask)
        rest = inputs[0][:, gone + 1 :]
        lost = inputs[0][:, gone] * weight[0, 0, gone]
        shift = torch.linalg.lstsq(rest, lost[:, None]).solution[:, 0] if gone < 4 else 0
        torch.testing.assert_close(found[0, 0, gone + 1 :], weight[0, 0, gone + 1 :] + shift)
        assert torch.equal(found[0, 0, :gone], weight[0, 0, :gone])


def test_settled_columns_score_first_or_zero():
    inputs, weight, _ = problem(3, columns=6)
    seen = []

    def decide(scores, start, stop):
        seen.append(scores(0, start))
        assert torch.equal(scores(start, stop), scores(0, 6)[..., start:stop])
        return scores(start, stop) > scores(start, stop).mean()

    _, mask = sweep(weight, inverse_factor(inputs.mT @ inputs), 2, decide)
    for scores in seen:
        kept = mask[..., : scores.shape[-1]]
        assert (scores[kept] == 1e30).all()
        assert (scores[~kept] == 0).all()


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_damping_is_relative_and_one_for_silent_parts(share):
    gram = torch.zeros(2, 3, 3)
    gram[0] = torch.diag(torch.tensor([1.0, 2.0, 3.0]))
    extra = damping_of(gram, share)
    assert extra.tolist() == pytest.approx([2 * share, 1])
    assert torch.equal(damped(gram, extra)[1], torch.eye(3))
