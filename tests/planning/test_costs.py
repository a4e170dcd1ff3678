import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.block import Block
from tvm_sparse.planning.candidates import candidates_of
from tvm_sparse.planning.costs import Costs, charged, table
from tvm_sparse.planning.timing import Taken
from tvm_sparse.pruning import BalancedPruning, FilterPruning, PatternPruning

CANDIDATES = candidates_of([BalancedPruning(0.5), PatternPruning(Block(16, 1), 0.5)], [0.75, 0.5])


def test_candidates_are_dense_and_each_method_at_each_level():
    assert [c.label for c in CANDIDATES] == [
        "dense",
        "balanced 50 %",
        "balanced 75 %",
        "block 50 %, order ihw",
        "block 75 %, order ihw",
    ]
    assert [c.family for c in CANDIDATES] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("methods", "levels", "message"),
    [
        ([], [0.5], "no method or no level"),
        ([BalancedPruning(0.5)], [], "no method or no level"),
        ([BalancedPruning(0.5)], [75], "fractions of zeros"),
        ([FilterPruning(0.5)], [0.5], "does not prune each layer by itself"),
        ([BalancedPruning(0.5, rounding="reach")], [0.5], "does not prune each layer by itself"),
    ],
)
def test_what_is_no_candidate_is_refused(methods, levels, message):
    with pytest.raises(InputError, match=message):
        candidates_of(methods, levels)


def test_a_network_with_one_candidate_everywhere_takes_what_was_measured():
    # The dense network: 100 and 50 us, 30 of neither layer. The sparse one has 40 of neither.
    own = np.array([[100.0, 60], [50, 20]])
    found, rest = charged(own, np.array([180.0, 120]), [10, 10])
    assert rest == 30
    np.testing.assert_allclose(rest + found.sum(axis=0), [180, 120])
    np.testing.assert_allclose(found[:, 0], own[:, 0])


def test_time_of_layers_without_kernels_of_their_own_is_charged_to_them():
    own = np.array([[100.0, 60], [0, 0], [0, 0]])
    found, rest = charged(own, np.array([300.0, 200]), [10, 30, 10])
    np.testing.assert_allclose(found[0], [100, 60])
    assert found[1, 1] == 0 and rest == 200  # 60 us less: no layer may take less than nothing


@given(
    st.lists(st.floats(0.1, 100), min_size=5, max_size=5),
    st.lists(st.floats(0.1, 100), min_size=5, max_size=5),
)
def test_sparser_is_never_slower_and_nothing_is_slower_than_dense(first, second):
    taken = [
        Taken({"a": a, "b": b}, a + b + 7, {"a": 10, "b": 20}, 40)
        for a, b in zip(first, second, strict=True)
    ]
    made = table(["a", "b"], [4, 4], CANDIDATES, taken, "measured")
    for row in made.us:
        for family in ([0, 1, 2], [0, 3, 4]):
            assert all(x >= y - 1e-9 for x, y in itertools.pairwise(row[family]))
    assert made.rest_us == pytest.approx(7)
    assert made.rest_bytes == 10 and made.nbytes.tolist() == [[10] * 5, [20] * 5]


def test_costs_survive_json():
    made = Costs(np.ones((2, 3)), 4.0, np.ones((2, 3)) * 8, 16.0, "modelled", 0.25)
    again = Costs.from_json(made.to_json())
    assert again.to_json() == made.to_json()
    assert again.whole_us([0, 1]) == 6 and again.whole_bytes([0, 1]) == 32
