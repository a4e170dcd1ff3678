import pytest

from tests.cuda.kernels import ARCHS, needs_nvrtc
from tvm_sparse.errors import InputError
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.resources import kernel_resources

KERNELS = """
extern "C" __global__ void plain(float* x) { x[threadIdx.x] += 1; }
extern "C" __global__ void shared(float* x) {
  __shared__ float s[100];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void __launch_bounds__(1024, 2) spills(float* x, int n) {
  float b[100];
  for (int i = 0; i < 100; i++) b[i] = x[i * 7 + threadIdx.x];
  __syncthreads();
  for (int j = 0; j < n; j++)
#pragma unroll
    for (int i = 0; i < 100; i++) b[i] = b[i] * b[(i + 1) % 100] + 1;
  for (int i = 0; i < 100; i++) x[i * 9 + threadIdx.x] = b[i];
}
"""


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHS)
def test_each_kernel(arch):
    used = kernel_resources(nvrtc.compile_source(KERNELS, arch))
    assert used.keys() == {"plain", "shared", "spills"}
    assert used["plain"].stack == 0
    assert used["plain"].registers < used["spills"].registers == 32
    assert used["spills"].stack >= 68 * 4
    # Hopper keeps 1 KB of every thread block's shared memory for itself.
    reserved = 1024 if arch == "sm_90" else 0
    assert used["shared"].shared == 400 + reserved
    assert used["shared"].stack == 0


def test_other_bytes():
    with pytest.raises(InputError, match="expected a 64-bit ELF file"):
        kernel_resources(b"PTX")
