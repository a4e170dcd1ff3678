import numpy as np
import pytest

from benchmarks.cases.kernel_cases import depthwise
from benchmarks.papers.refactored import Refactored
from tvm_sparse.ops.contractions.contraction import reference
from tvm_sparse.patterns.depthwise import DepthwiseTaps


@pytest.mark.parametrize(("channels", "kernel", "stride"), [(64, 3, 1), (40, 5, 2)])
def test_refactored_layers_compute_the_convolution(channels, kernel, stride):
    case = depthwise(8, channels, kernel, stride=stride)
    c = case.contraction
    rng = np.random.default_rng(0)
    x = rng.standard_normal(c.input_shape, dtype=np.float32)
    weight = rng.standard_normal(c.matrix_shape, dtype=np.float32)
    pruned = weight * DepthwiseTaps(32, balanced=False).project(np.abs(weight), 0.7)
    for matrix, dense in ((weight, True), (pruned, True), (pruned, False)):
        layer = Refactored(case, x, matrix, dense)
        expected = reference(c, x, matrix)
        for run in (layer.product, layer.whole):
            got = layer.output(run)().numpy()
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_the_widest_sub_gemm_decides():
    case = depthwise(4, 64, 3)
    weight = np.ones((64, 9), np.float32)
    weight[:32, 2:] = 0  # 64 of 288 vectors are left in the first sub-GEMM, all in the second
    x = np.zeros(case.contraction.input_shape, np.float32)
    assert Refactored(case, x, weight).width == 288
    weight[32:, 1:] = 0
    assert Refactored(case, x, weight).width == 64
