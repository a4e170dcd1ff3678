import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.planning.knapsack import Knapsack, monotone


@st.composite
def tables(draw, costs):
    """Costs and losses of a few layers with a few candidates each."""
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    losses = st.integers(0, 9)
    return tuple(
        [np.array(draw(st.lists(numbers, min_size=n, max_size=n)), float) for n in counts]
        for numbers in (costs, losses)
    )


def every(costs, losses):
    """Each choice with its cost and its loss."""
    for choice in itertools.product(*(range(len(c)) for c in costs)):
        yield (
            choice,
            sum(c[i] for c, i in zip(costs, choice, strict=True)),
            sum(loss[i] for loss, i in zip(losses, choice, strict=True)),
        )


@given(tables(st.integers(0, 12)), st.integers(-1, 70))
def test_the_choice_is_that_of_brute_force(table, budget):
    costs, losses = table
    spread = int(sum(c.max() - c.min() for c in costs))
    found = Knapsack(costs, losses, cells=max(spread, 1)).within(budget)
    allowed = [(loss, cost) for _, cost, loss in every(costs, losses) if cost <= budget]
    if not allowed:
        assert found is None
        return
    own = {choice: (loss, cost) for choice, cost, loss in every(costs, losses)}
    assert own[found] == min(allowed)  # of equal losses the cheapest


@given(tables(st.integers(0, 12)), st.integers(0, 40))
def test_the_cheapest_with_a_loss_is_that_of_brute_force(table, most):
    costs, losses = table
    spread = int(sum(c.max() - c.min() for c in costs))
    knapsack = Knapsack(costs, losses, cells=max(spread, 1))
    found = knapsack.losing(most)
    allowed = [cost for _, cost, loss in every(costs, losses) if loss <= most]
    assert (found is None) == (not allowed)
    if found is not None:
        assert knapsack.cost(found) == min(allowed)


@given(
    tables(st.floats(0.01, 1e4, allow_nan=False)),
    st.floats(0, 1),
    st.sampled_from([64, 1024]),
)
def test_any_costs_keep_the_budget_and_lose_little_by_the_grid(table, place, cells):
    costs, losses = table
    knapsack = Knapsack(costs, losses, cells)
    budget = knapsack.lowest + place * (knapsack.highest - knapsack.lowest)
    found = knapsack.within(budget)
    assert found is not None
    slack = 1e-5 * knapsack.cell * len(costs)
    assert knapsack.cost(found) <= budget + slack
    loss = sum(own[i] for own, i in zip(losses, found, strict=True))
    tighter = budget - knapsack.cell * (len(costs) + 1)
    worst = min((loss for _, cost, loss in every(costs, losses) if cost <= tighter), default=np.inf)
    assert loss <= worst


def test_a_large_table_is_solved_with_all_its_budget():
    rng = np.random.default_rng(0)
    costs = [np.sort(rng.random(8))[::-1] * 100 for _ in range(150)]
    losses = [np.sort(rng.random(8)) for _ in range(150)]
    knapsack = Knapsack(costs, losses)
    budget = 0.6 * knapsack.lowest + 0.4 * knapsack.highest
    assert 0.985 * budget < knapsack.cost(knapsack.within(budget)) <= budget


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([3, 2, 1], [2, 2, 2]),
        ([1, 3, 2, 4], [1, 2.5, 2.5, 4]),
        ([4, 4, 1, 9], [3, 3, 3, 9]),
        ([], []),
    ],
)
def test_neighbours_that_contradict_get_their_mean(values, wanted):
    assert monotone(values) == wanted


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_monotone_is_the_nearest(values):
    found = monotone(values)
    assert all(a <= b for a, b in itertools.pairwise(found))
    own = sum((a - b) ** 2 for a, b in zip(values, found, strict=True))
    for level in range(51):  # no step up or down of a tail comes nearer
        for place in range(len(values)):
            other = [min(f, level) if i < place else max(f, level) for i, f in enumerate(found)]
            assert own <= sum((a - b) ** 2 for a, b in zip(values, other, strict=True)) + 1e-6
