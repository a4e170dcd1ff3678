"""Every operator in every dtype: its PTX is executed, equals the reference, and is sound."""

from __future__ import annotations

import pytest

from benchmarks.gpu.executed import execute
from benchmarks.gpu.operators import OPERATORS
from tests.cuda.kernels import needs_nvrtc

CASES = [(layer, dtype) for layer, operator in OPERATORS.items() for dtype in operator.dtypes]


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(("layer", "dtype"), CASES)
def test_executed_ptx_equals_the_reference(layer, dtype, emulator):
    executed = execute(OPERATORS[layer], dtype, emulator)
    assert executed.error == 0
    assert not executed.report.findings
    assert executed.report.launches
