import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.schedule import Exponential, Levels, OneShot


def test_one_shot():
    assert [OneShot().due(step) for step in range(3)] == [1.0, None, None]
    assert [OneShot(2).due(step) for step in range(4)] == [None, None, 1.0, None]
    with pytest.raises(InputError, match="start >= 0"):
        OneShot(-1)


def test_levels():
    shares = [Levels([0.45, 0.9]).due(step) for step in range(3)]
    assert shares == [0.5, 1.0, None]


@pytest.mark.parametrize("levels", [[], [0.9, 0.5], [0.0, 0.5], [0.5, 1.5]])
def test_levels_refuses(levels):
    with pytest.raises(InputError, match="rising sparsities"):
        Levels(levels)


def test_exponential_by_hand():
    # 1 - (1 - t)^3 at t = 0, 1/2, 1; pruning at epochs 0, 2 and 4 only.
    schedule = Exponential(total=4, start=0, every=2, exponent=3)
    assert [schedule.due(e) for e in range(6)] == [0, None, 0.875, None, 1, None]


def test_the_papers_schedule():
    schedule = Exponential()
    epochs = [e for e in range(200) if schedule.due(e) is not None]
    assert epochs == [20, 40, 60, 80, 100, 120, 140, 160]
    shares = [schedule.due(e) for e in epochs]
    assert shares == sorted(shares)
    assert shares[1] == pytest.approx(1 - (7 / 8) ** 3)
    # Table II, p = 0: 49.90 % and 69.86 % for targets of 50 % and 70 %.
    assert round(50 * shares[-1], 2) == 49.90
    assert round(70 * shares[-1], 2) == 69.86


def test_the_last_epoch_prunes_even_if_every_does_not_divide_total():
    assert Exponential(total=5, start=0, every=2).due(5) == 1.0


def test_exponential_refuses():
    with pytest.raises(InputError, match="every >= 1"):
        Exponential(every=0)
