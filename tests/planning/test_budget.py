import math
from dataclasses import replace

import pytest

from tests.planning.tables import costs, tables
from tvm_sparse.errors import InputError
from tvm_sparse.planning.budget import Budget, solved


@pytest.mark.parametrize(
    ("budget", "choice"),
    [
        (Budget("speedup", 1.0), (0, 0, 0)),
        (Budget("speedup", 1.2), (0, 1, 0)),  # 416 us: one step of the middle layer
        (Budget("latency_ms", 0.36), (0, 2, 0)),
        (Budget("latency_ms", 0.3), (2, 2, 0)),
        (Budget("bytes", 1000 + 40 * 210), (0, 2, 0)),
        (Budget("sparsity", 0.25), (1, 0, 2)),  # 87.5 of 350 weights
        (Budget("sparsity", 0.42), (0, 2, 0)),
        (Budget("sparsity", 0.7), (2, 2, 1)),
        (Budget("max_drop", 0.03), (0, 1, 0)),
        (Budget("max_drop", 0.5), (2, 2, 0)),
    ],
)
def test_a_budget_gives_the_least_loss_or_the_least_time(budget, choice):
    assert solved(tables(), budget) == ("float32", choice)


@pytest.mark.parametrize(
    ("budget", "best"),
    [
        (Budget("speedup", 4), "speedup=1.69 at best, in float32 with a drop of 0.15"),
        (Budget("latency_ms", 0.1), "latency_ms=0.295 at best"),
        (Budget("bytes", 10), "bytes=6800 at best"),
        (Budget("sparsity", 0.8), "sparsity=0.75 at best, in float32 with a drop of 0.2"),
    ],
)
def test_out_of_reach_names_the_best(budget, best):
    with pytest.raises(InputError, match="is out of reach") as error:
        solved(tables(), budget)
    assert best in str(error.value)
    kind, value = best.split(" ")[0].split("=")
    slack = 0.99 if kind in ("speedup", "sparsity") else 1.01
    solved(tables(), Budget(kind, float(value) * slack))  # what is named can be reached


def test_numerics_with_the_least_drop_win():
    both = tables(float32=costs(), int8=costs(0.5, drop=0.01))
    assert solved(both, Budget("speedup", 1.1))[0] == "int8"  # dense bytes lose less than zeros
    assert solved(both, Budget("speedup", 1.0)) == ("float32", (0, 0, 0))
    # at a drop the fastest wins, and a drop below that of bytes is left to floats
    assert solved(both, Budget("max_drop", 0.05))[0] == "int8"
    assert solved(both, Budget("max_drop", 0.005))[0] == "float32"
    only = tables(int8=costs(0.5, drop=0.01))
    with pytest.raises(InputError, match=r"max_drop=0.01 at best, in int8"):
        solved(only, Budget("max_drop", 0.005))


def test_modelled_milliseconds_are_refused():
    modelled = tables(float32=costs(source="modelled"))
    assert solved(modelled, Budget("speedup", 1.2)) == ("float32", (0, 1, 0))
    with pytest.raises(InputError, match="are modelled, relative to the dense network"):
        solved(modelled, Budget("latency_ms", 0.3))


def test_one_level_everywhere_is_taken_where_it_was_seen_to_lose_less():
    better = replace(tables().uniform[0], drop=0.001)
    made = replace(tables(), uniform=(better, tables().uniform[1]))
    assert solved(tables(), Budget("latency_ms", 0.375)) == ("float32", (0, 2, 0))
    assert solved(made, Budget("latency_ms", 0.375)) == ("float32", (1, 1, 1))
    assert solved(made, Budget("max_drop", 0.001)) == ("float32", (1, 1, 1))
    assert solved(made, Budget("latency_ms", 0.365)) == ("float32", (0, 2, 0))  # it takes 370 us


@pytest.mark.parametrize("given", [{}, {"speedup": 2, "bytes": 3}])
def test_one_budget_is_needed(given):
    with pytest.raises(InputError, match="as a budget"):
        Budget.of(**given)


def test_not_all_weights_can_be_zeros():
    with pytest.raises(InputError, match="a fraction below one"):
        Budget.of(sparsity=1)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "3", True])
def test_a_budget_is_a_number_above_zero(value):
    with pytest.raises(InputError, match="a number above zero"):
        Budget.of(speedup=value)
