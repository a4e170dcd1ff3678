import pytest

from benchmarks.kernel_cases import conv
from tests.kernels import host
from tvm_sparse.ops.candidates import dense_candidate
from tvm_sparse.schedules.build import build_function


@pytest.mark.parametrize("size", [112, 224])
def test_a_tile_with_as_many_loops_as_axes_is_not_scheduled_again(size):
    """The first convolution of VGG: large enough for the loops to be fused for all threads."""
    build_function(dense_candidate(conv(size, 3, 64, 3).contraction, host()).func, host())
