"""Compile GPU operators to machine code, and look at what came out."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.ops.cuda.ptx import Bank, Form
from tvm_sparse.schedules.build import build_context
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.resources import KernelResources, kernel_resources
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.targets import parse_target
from tvm_sparse.tuning.space import Point, Space, space_of

ARCHS = ("sm_80", "sm_90")
needs_nvrtc = pytest.mark.skipif(
    nvrtc.compiler_name() is None, reason="no CUDA compiler (pip install 'tvm-sparse[cuda]')"
)

STAND_INS = """
int ts_tile(__private float* held, __private float* last, __local float* tile, int row,
            int column) {
  *(__private ulong*)held = (ulong)tile;
  ((__private int*)held)[2] = row;
  ((__private int*)held)[3] = column;
  return 0;
}
int ts_product(__private float* c, __private float* last, __private float* a, __private float* b) {
  __local float* left = (__local float*)*(__private ulong*)a;
  __local float* right = (__local float*)*(__private ulong*)b;
  int down = ((__private int*)a)[2], lane = get_local_id(0);
  int step = ((__private int*)b)[2], next = ((__private int*)b)[3];
  for (int r = 0; r < 8; ++r) {
    int row = lane / 4 + 8 * (r / 2 % 2), column = 2 * (lane % 4) + r % 2 + 8 * (r / 4);
    for (int k = 0; k < 16; ++k) c[r] += left[row * down + k] * right[k * step + column * next];
  }
  return 0;
}
int ts_kept(__private float* held, __private float* last, __local float* values,
            __local int* metadata) {
  ((__private ulong*)held)[0] = (ulong)values;
  ((__private ulong*)held)[1] = (ulong)metadata;
  return 0;
}
int ts_product_kept(__private float* c, __private float* last, __private float* a,
                    __private float* b) {
  __local float* left = (__local float*)*(__private ulong*)a;
  __local float* values = (__local float*)((__private ulong*)b)[0];
  __local uint* metadata = (__local uint*)((__private ulong*)b)[1];
  int down = ((__private int*)a)[2], lane = get_local_id(0);
  for (int r = 0; r < 16; ++r) {
    int row = r / 4 % 2 * 8 + lane % 4 * 2 + r % 2, part = r / 8, below = r / 2 % 2;
    for (int i = 0; i < 16; ++i) {
      uint word = metadata[lane / 4 * 4 + 2 * part + i / 8] >> 16 * below;
      int holder = 32 * part + lane / 4 * 4 + i % 8 / 2;
      float value = values[8 * holder + i / 8 * 4 + below * 2 + i % 2];
      c[r] += left[row * down + i / 2 * 4 + (word >> 2 * (i % 8) & 3)] * value;
    }
  }
  return 0;
}
"""
"""Tensor-core instructions in OpenCL. Lanes cannot exchange registers on a CPU: a load notes where
its tile lies, a product reads the tiles there. Gather, pipeline, barriers and epilogue are real."""


class StandIns:
    """Calls of :data:`STAND_INS` in place of :class:`tvm_sparse.ops.cuda.ptx.Intrinsics`."""

    def load(self, form: Form, ends: Any, source: Any, lane: Any, pitch: Any) -> Any:
        strides = (1, pitch) if form is Form.RIGHT else (pitch, 1)
        return T.call_extern("int32", "ts_tile", *ends, source, *strides)

    def load_wide(self, ends: Any, source: Any, lane: Any, pitch: Any) -> Any:
        return self.load(Form.LEFT, ends, source, lane, pitch)

    def load_kept(self, ends: Any, values: Any, metadata: Any, lane: Any) -> Any:
        return T.call_extern("int32", "ts_kept", *ends, values, metadata)

    def multiply_kept(self, ends: Any, rows: Any, features: Any, dtype: str) -> Any:
        return T.call_extern("int32", "ts_product_kept", *ends, rows, features)

    def __init__(self) -> None:
        self.decoders: dict[str, str] = {}

    def decode(self, out: Any, values: Any, words: Any, place: Any, bank: Bank) -> Any:
        self.decoders[bank.name] = bank.source(
            device="int",
            shared="__local ",
            type="float",
            piece="float4",
            zero="(float4)(0)",
            end="return 0;",
        )
        return T.call_extern("int32", bank.name, out, values, words, place)

    @property
    def prelude(self) -> str:
        """OpenCL source of everything that calls refer to."""
        return STAND_INS + "".join(self.decoders.values())

    def multiply(self, ends: Any, left: Any, right: Any, dtype: str) -> Any:
        return T.call_extern("int32", "ts_product", *ends, left, right)


@functools.cache
def target(arch: str = "sm_90") -> Target:
    """Return the target of one architecture."""
    return parse_target(f"cuda:{arch}").target


def scheduled(func: tirx.PrimFunc, rule: ScheduleRule, arch: str = "sm_90") -> tirx.PrimFunc:
    """Return ``func`` as ``rule`` schedules it."""
    schedule = rule.apply(func, target(arch), tunable=False)
    assert schedule is not None, f"{type(rule).__name__} does not take this function"
    return schedule.mod["main"].with_attr("global_symbol", "main")


def space(func: tirx.PrimFunc, rule: ScheduleRule, arch: str = "sm_90") -> Space:
    """Return what ``rule`` leaves open about ``func``."""
    found = space_of(func, target(arch), (rule,))
    assert found is not None, f"{type(rule).__name__} leaves nothing open"
    return found


def samples(found: Space, count: int) -> list[Schedule]:
    """Return feasible schedules with random decisions, all different."""
    chosen: dict[Point, Schedule] = {}
    instructions = found.variants[0].trace.insts
    for seed in range(1, 2000):
        schedule = Schedule(found.module, seed=seed * 7919)
        Trace(instructions, {}).apply_to_schedule(schedule, remove_postproc=False)
        if found.rule.feasible(schedule):
            chosen[found.point(schedule)] = schedule
        if len(chosen) == count:
            return list(chosen.values())
    raise AssertionError(f"only {len(chosen)} feasible schedules")


def dynamic_shared(func: tirx.PrimFunc, arch: str = "sm_90") -> int:
    """Return the dynamic shared memory that a scheduled function's kernel is launched with."""
    found: list[int] = []

    @tvm.instrument.pass_instrument
    class Launch:
        def run_after_pass(self, module: tvm.IRModule, info: Any) -> None:
            if info.name == "tirx.SplitHostDevice":
                launch = r"(?:T\.int64\()?(\d+)\)?, launch_params=\[[^\]]*use_dyn_shared"
                found.extend(int(size) for size in re.findall(launch, module.script()))

    with build_context(target(arch)):
        config = dict(tvm.transform.PassContext.current().config)
        with tvm.transform.PassContext(config=config, instruments=[Launch()]):
            tvm.compile(tvm.IRModule({"main": func}), target=target(arch))
    return max(found, default=0)


def source(func: tirx.PrimFunc, arch: str = "sm_90") -> str:
    """Return the CUDA source of a scheduled function."""
    with build_context(target(arch)):
        built = tvm.compile(tvm.IRModule({"main": func}), target=target(arch))
    text: str = built.mod.imports[0].inspect_source()
    return text


def compiled(func: tirx.PrimFunc, arch: str) -> dict[str, KernelResources]:
    """Return the resources of each kernel of a scheduled function."""
    return kernel_resources(nvrtc.compile_source(source(func, arch), arch))


def assert_lean(func: tirx.PrimFunc, arch: str, registers: int = 255) -> None:
    """Fail if a kernel spills, keeps arrays in local memory or exceeds ``registers``."""
    for name, used in compiled(func, arch).items():
        assert used.stack == 0, f"{name} keeps {used.stack} bytes in local memory"
        assert used.registers <= registers, f"{name} takes {used.registers} registers"


def blank(shape: tuple[int, ...]) -> np.ndarray:
    """Return an output that shows what was never written."""
    return np.full(shape, np.nan, np.float32)
