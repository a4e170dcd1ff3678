"""Functions of a PTX module, called from kernels and from each other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import kernel
from tvm_sparse_emulator.errors import EmulatorError
from tvm_sparse_emulator.executor import execute
from tvm_sparse_emulator.report import EmulationReport

LOAD = "mad.wide.u32 %d10, %r0, 4, %d0; ld.global.u32 %r1, [%d10];"
STORE = "st.global.u32 [%d10], %r9;"

TRIANGLE = """
.func (.param .b32 out) triangle(.param .b32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<5>;
  ld.param.u32 %r1, [n];
  mov.u32 %r2, 0;
  setp.eq.u32 %p1, %r1, 7;
  @%p1 bra $seven;
$again:
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra $done;
  add.u32 %r2, %r2, %r1;
  sub.u32 %r1, %r1, 1;
  bra $again;
$done:
  st.param.b32 [out], %r2;
  ret;
$seven:
  st.param.b32 [out], -1;
  ret;
}
"""


def call(name: str, source: str, target: str, guard: str = "") -> str:
    return f"""{{
      .param .b32 param0; st.param.b32 [param0], {source};
      .param .b32 retval0;
      {guard} call.uni (retval0), {name}, (param0);
      ld.param.b32 {target}, [retval0];
    }}
    """


def launch(functions: str, body: str, values: np.ndarray) -> tuple[np.ndarray, EmulationReport]:
    head, entry = kernel(f"{LOAD}\n{body}\n{STORE}", 1).split(".visible", 1)
    found = values.astype("u4")
    threads = (len(found), 1, 1)
    report = execute(f"{head}{functions}.visible{entry}", "k", (1, 1, 1), threads, [found])
    return found, report


def test_lanes_return_from_loops_of_their_own_length():
    values = np.arange(32)
    found, report = launch(TRIANGLE, call("triangle", "%r1", "%r9"), values)
    wanted = values * (values + 1) // 2
    wanted[7] = 2**32 - 1
    assert np.array_equal(found, wanted)
    assert not report.findings
    assert report.launches[0].divergent > 0


def test_two_calls_do_not_share_labels_or_registers():
    body = call("triangle", "%r1", "%r2") + call("triangle", "%r2", "%r3")
    found, _ = launch(TRIANGLE, f"{body} mad.lo.u32 %r9, %r2, 1000, %r3;", np.arange(5))
    wanted = [n * (n + 1) // 2 for n in range(5)]
    assert found.tolist() == [1000 * n + n * (n + 1) // 2 for n in wanted]


def test_a_function_calls_one_that_is_defined_behind_it():
    outer = """
    .func (.param .b32 out) triangle(.param .b32 n);
    .func (.param .b32 out) outer(.param .b32 n)
    {
      .reg .b32 %r<4>;
      ld.param.u32 %r1, [n];
      add.u32 %r1, %r1, 1;
    """
    outer += call("triangle", "%r1", "%r2") + "st.param.b32 [out], %r2; ret; }"
    found, _ = launch(outer + TRIANGLE, call("outer", "%r1", "%r9"), np.arange(6))
    assert found.tolist() == [1, 3, 6, 10, 15, 21]


@pytest.mark.parametrize("negated", [False, True])
def test_only_lanes_with_the_predicate_call(negated):
    guard = "@!%p1" if negated else "@%p1"
    body = f"""
    setp.lt.u32 %p1, %r1, 3;
    {{ .param .b32 param0; st.param.b32 [param0], %r1;
       .param .b32 retval0; st.param.b32 [retval0], 99;
       {guard} call (retval0), triangle, (param0);
       ld.param.b32 %r9, [retval0]; }}
    """
    found, _ = launch(TRIANGLE, body, np.arange(6))
    called = [(n < 3) != negated for n in range(6)]
    assert found.tolist() == [
        n * (n + 1) // 2 if c else 99 for n, c in zip(range(6), called, strict=True)
    ]


def test_structures_vectors_and_functions_without_result():
    functions = """
    .func store(.param .b64 where, .param .align 8 .b8 pair[8])
    {
      .reg .b32 %r<4>; .reg .b64 %d<2>;
      ld.param.u64 %d1, [where];
      ld.param.v2.b32 {%r1, %r2}, [pair];
      ld.param.u16 %r3, [pair+2];
      sub.u32 %r1, %r1, %r2;
      add.u32 %r1, %r1, %r3;
      st.global.u32 [%d1], %r1;
    }
    """
    body = """
    { .param .b64 param0; st.param.b64 [param0], %d10;
      .param .align 8 .b8 param1[8];
      st.param.v2.b32 [param1], {%r1, %r0};
      call store, (param0, param1); }
    ld.global.u32 %r9, [%d10];
    """
    values = np.arange(8) * 65537
    found, _ = launch(functions, body, values)
    assert np.array_equal(found, values - np.arange(8) + values // 65536)


@pytest.mark.parametrize(
    ("functions", "body", "said"),
    [
        (TRIANGLE, call("square", "%r1", "%r9"), "function 'square' has no body in this module"),
        (
            ".extern .func (.param .b32 out) square(.param .b32 n);",
            call("square", "%r1", "%r9"),
            "function 'square' has no body in this module",
        ),
        (
            ".func (.param .b32 out) round(.param .b32 n) { .reg .b32 %r<2>; "
            + call("round", "%r1", "%r1")
            + "}",
            call("round", "%r1", "%r9"),
            "function 'round' calls itself",
        ),
        (TRIANGLE, "call (%r9), triangle, (%r1);", "'%r9' is no parameter of 4 bytes"),
        (TRIANGLE, "call triangle;", "0 operands, expected 1"),
        (TRIANGLE, "call (%r9), %d1, (%r1), prototype;", "a call through a pointer"),
        (TRIANGLE, "ld.param.u32 %r9, [nothing];", "unknown parameter 'nothing'"),
        (TRIANGLE, "st.param.u32 [a0], %r1;", "'st.param.u32'"),
    ],
)
def test_what_is_not_known_is_named(functions, body, said):
    with pytest.raises(EmulatorError, match=said):
        launch(functions, body, np.arange(4))
