"""printf, assert and headers of C in kernels: what nvcc's users write without thinking."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import needs_nvrtc
from tvm_sparse_emulator import compile_ptx, execute
from tvm_sparse_emulator.errors import EmulatorError
from tvm_sparse_emulator.headers import HEADERS

pytestmark = needs_nvrtc

PRINTS = r"""
#include <stdio.h>
extern "C" __global__ void k(const float* x, const char* text) {
  int i = threadIdx.x;
  if (i > 1) return;
  printf("%d: %6.2f|%-4s|%c|%lld|%hd|%zu|%x|%p|%%\n", i, x[i], "ab", 'z', (long long)i << 40, -7,
         sizeof(int), 255, (void*)16);
  if (i == 1) printf("%s %s\n", text, (const char*)nullptr), printf("plain\n");
}
"""


def test_printf(capfd):
    x, text = np.arange(4, dtype="f4"), np.frombuffer(b"given\0", "u1").copy()
    report = execute(compile_ptx(PRINTS), "k", (1, 1, 1), (4, 1, 1), [x, text])
    assert not report.findings
    assert capfd.readouterr().out.splitlines() == [
        "0:   0.00|ab  |z|0|-7|4|ff|0x10|%",
        "1:   1.00|ab  |z|1099511627776|-7|4|ff|0x10|%",
        "given (no text)",
        "plain",
    ]


ASSERTS = """
#include <cassert>
extern "C" __global__ void k(int* y, int most) {
  assert(threadIdx.x < most && "a wide block");
  y[threadIdx.x] = 1;
}
"""


@pytest.mark.parametrize(("most", "times"), [(64, 0), (40, 24)])
def test_assert(most, times):
    y = np.zeros(64, "i4")
    found = execute(compile_ptx(ASSERTS), "k", (1, 1, 1), (64, 1, 1), [y, most]).findings
    assert sum(one.times for one in found) == times
    assert y.all()
    for one in found:
        assert (one.kind, one.thread) == ("assertion", (40, 0, 0))
        assert one.detail == 'threadIdx.x < most && "a wide block" (kernel.cu, line 4)'


def test_without_debugging_nothing_is_asserted():
    ptx = compile_ptx(ASSERTS, flags=("-DNDEBUG",))
    assert not execute(ptx, "k", (1, 1, 1), (64, 1, 1), [np.zeros(64, "i4"), 1]).findings


USES = {
    "cstdint": "std::uint32_t a = 7; int64_t b = a; y[0] = b;",
    "stdint.h": "uint8_t a = 7; y[0] = a;",
    "climits": "y[0] = INT_MAX - INT_MAX + 7;",
    "cfloat": "y[0] = FLT_MAX > 1 ? 7 : 0;",
    "cmath": "y[0] = (int)sqrtf(49.0f);",
    "limits": "y[0] = std::numeric_limits<char>::max() > 7 ? 7 : 0;",
    "type_traits": "y[0] = std::is_same<int, int>::value ? 7 : 0;",
    "utility": "y[0] = std::move(7);",
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers(name):
    use = USES.get(name, "y[0] = 7;")
    source = f'#include <{name}>\nextern "C" __global__ void k(int* y) {{ {use} }}'
    y = np.zeros(1, "i4")
    execute(compile_ptx(source), "k", (1, 1, 1), (1, 1, 1), [y])
    assert y[0] == 7


def test_all_headers_go_together():
    source = "\n".join(f"#include <{name}>" for name in HEADERS)
    compile_ptx(source + '\nextern "C" __global__ void k(int* y) { y[0] = sizeof(uint64_t); }')


def test_other_functions_without_a_body_are_named():
    source = """
extern "C" __device__ int elsewhere(int);
extern "C" __global__ void k(int* y) { y[0] = elsewhere(3); }"""
    with pytest.raises(EmulatorError, match="function 'elsewhere' has no body in this module"):
        execute(compile_ptx(source, flags=("-dc",)), "k", (1, 1, 1), (1, 1, 1), [np.zeros(1, "i4")])
