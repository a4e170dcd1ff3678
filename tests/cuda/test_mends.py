"""Each mend computes the same with less traffic of shared memory, and can be turned off."""

from __future__ import annotations

import pytest

from benchmarks.gpu.executed import execute
from benchmarks.gpu.operators import OPERATORS
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.ops.cuda.mends import OFF, Mends, in_use, using


def passes(layer, dtype, emulator, mends):
    with using(mends):
        executed = execute(OPERATORS[layer], dtype, emulator)
    assert executed.error == 0
    assert not executed.report.findings
    return sum(launch.shared_passes for launch in executed.report.launches)


def test_what_is_off_is_on_again_behind_it():
    with using(OFF):
        assert in_use() == OFF
    assert in_use() == Mends()


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(
    ("layer", "dtype", "mends", "least"),
    [
        ("joint", "float32", Mends(step_padding=0.0, held_banks=False), 1.6),
        ("balanced convolution", "float16", Mends(step_padding=0.0, lanes_apart=False), 1.1),
    ],
    ids=["lanes apart", "held banks"],
)
def test_fewer_passes(layer, dtype, mends, least, emulator):
    before, after = (passes(layer, dtype, emulator, m) for m in (OFF, mends))
    assert before >= least * after
