import numpy as np

from tvm_sparse.planning.evolution import choices, evolved

US = np.array([[10.0, 5, 2]] * 6)
LOSSES = np.array([[0.0, 0.1, 0.3]] * 6)
TRUE = np.array([10.0, 1, 1, 1, 0.1, 0.1])
"""How much the whole network minds each layer, which the tables do not know."""


def drop(choice):
    return float((TRUE * LOSSES[np.arange(6), choice]).sum())


def run(trials, seed=0):
    return evolved(US, LOSSES, drop, trials=trials, seed=seed, progress=lambda *_: None)


def lost(factors):
    found = choices(US, factors[:, None] * LOSSES, (0.3, 0.5, 0.7))
    return sum(drop(choice) for choice in found)


def test_factors_make_whole_networks_lose_less():
    factors = run(150)
    assert lost(factors) < 0.6 * lost(np.ones(6))
    assert factors[0] > factors[4:].max()


def test_equal_seeds_give_equal_factors():
    np.testing.assert_array_equal(run(30), run(30))
    assert not np.array_equal(run(30), run(30, seed=1))


def test_without_trials_nothing_changes():
    np.testing.assert_array_equal(run(0), np.ones(6))


def test_choices_lie_between_the_fastest_network_and_the_dense_one():
    fastest, middle, dense = choices(US, LOSSES, (0, 0.5, 1))
    assert fastest == (2,) * 6 and dense == (0,) * 6
    assert 12 < sum(US[0][c] for c in middle) <= 36
