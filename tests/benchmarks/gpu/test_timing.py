from benchmarks.gpu.timing import FEWEST, SECONDS, calls_of


def test_slow_programs_are_called_less_often():
    assert calls_of(1e-5, 100) == 100
    assert calls_of(SECONDS / 50, 100) == 50
    assert calls_of(3.0, 100) == FEWEST
    assert calls_of(3.0, 5) == 5
    assert calls_of(0.0, 100) == 100
