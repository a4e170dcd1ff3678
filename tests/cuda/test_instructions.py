import pytest

from tests.cuda.kernels import ARCHS, needs_nvrtc
from tests.cuda.test_resources import KERNELS
from tvm_sparse.errors import InputError
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.instructions import instruction_counts

WIDE = """
extern "C" __global__ void wide(float4* x, float2* y) {
  float4 v = x[threadIdx.x];
  y[threadIdx.x] = make_float2(v.x * v.y + v.z, v.w);
}
"""


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHS)
def test_accesses_and_products(arch):
    counts = instruction_counts(nvrtc.compile_source(KERNELS + WIDE, arch))
    assert counts.keys() == {"plain", "shared", "spills", "wide"}
    assert dict(counts["wide"]) == {"LDG.128": 1, "FFMA": 1, "STG.64": 1}
    assert dict(counts["plain"]) == {"LDG.32": 1, "STG.32": 1}
    assert counts["shared"].keys() == {"LDG.32", "STS.32", "LDS.32", "STG.32"}
    spilt = sum(n for name, n in counts["spills"].items() if name[:3] in ("LDL", "STL"))
    assert spilt > 50
    assert counts["spills"]["FFMA"] >= 100


def test_other_bytes():
    with pytest.raises(InputError, match="expected a 64-bit ELF file"):
        instruction_counts(b"PTX")
