"""A model is printed behind the passes that were named, and names are checked first."""

import pytest


def test_a_list_of_passes_runs_in_its_order(call, pt2):
    printed = call("passes", pt2, "--passes", "BindWeights, Simplify").stdout
    assert "R.matmul" in printed and "@R.function" in printed
    lowered = call("passes", pt2, "--without", "FoldConstants").stdout
    assert "R.matmul" not in lowered and "@T.prim_func" in lowered


@pytest.mark.parametrize("option", ["--passes", "--without"])
def test_an_unknown_pass_is_one_clear_error(call, pt2, option):
    done = call("passes", pt2, option, "Simplify,Sparsify", status=1)
    assert "'Sparsify'; expected some of BindWeights, Simplify" in done.stderr
