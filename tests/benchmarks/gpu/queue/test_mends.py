import numpy as np
import pytest

from benchmarks.gpu.queue import mends
from benchmarks.gpu.queue.step import Plan
from tests.cuda.kernels import target
from tvm_sparse.selection.cuda import tile_choice

SMALL = Plan(small=True)
THERE = mends.Mend("steps", {"short": (16,), "long": (64,)}, (), switch=mends.MENDS[0].switch)


def test_what_nobody_built_is_skipped():
    for switch in ("", "tvm_sparse.selection.cuda.no_such_file:X", "tvm_sparse.names:NO_SUCH"):
        mend = mends.Mend("m", mends.ON_OFF, (mends.TINY,), switch=switch)
        assert mend.missing == mends.NOT_BUILT
        (piece,) = mends.pieces([mend], "mends", SMALL)
        assert (piece.name, piece.skip) == ("m", mends.NOT_BUILT)
        assert not mends.kernels([mend], SMALL)


def test_a_kernel_is_built_with_its_value_and_the_compiler_is_as_before(monkeypatch):
    monkeypatch.setattr(tile_choice, "COLUMNS", (64, 48, 32, 16))
    case = mends.TINY.case(16)
    steps = {}
    for label, kernel in THERE.kernels(case).items():
        with kernel.chosen():
            steps[label] = tile_choice.choose_step(80)
    assert steps == {"short": 16, "long": 64}
    assert tile_choice.COLUMNS == (64, 48, 32, 16)


def test_values_have_places_and_names_of_their_own():
    kernels = mends.kernels([THERE], SMALL)
    assert len({kernel.name for kernel in kernels}) == len(kernels) == 2
    assert len({kernel.place("cuda:sm_90") for kernel in kernels}) == 2
    option = kernels[0].option(target())
    assert sum(map(np.count_nonzero, kernels[0].arrays(option.storage)[:1])) > 0


@pytest.mark.parametrize("listed", [mends.MENDS, mends.HOPPER])
def test_every_mend_has_layers_and_several_values(listed):
    assert len({mend.name for mend in listed}) == len(listed)
    for mend in listed:
        assert len(mend.values) > 1
        names = [case.name for case in mend.cases(Plan())]
        assert len(set(names)) == len(names) > 1


def test_gains_are_told_over_the_first_value():
    times = {"ours off": {"median_us": 20.0}, "ours on": {"median_us": 10.0}}
    worse = {"ours off": {"median_us": 10.0}, "ours on": {"median_us": 12.5}}
    rows = [{"mend": "split-K", "times": times}, {"mend": "split-K", "times": worse}]
    assert mends.tells(rows) == "split-K 0.80 to 2.00x"
