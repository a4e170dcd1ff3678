"""Compile GPU operators to machine code and look at it; execute their PTX."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from tvm_sparse.base.numerics import is_float
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import Change, Emulator
from tvm_sparse.schedules.build import build_context
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.resources import KernelResources, kernel_resources
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.tuning.space import Point, Space, space_of

ARCHS = ("sm_80", "sm_90")
needs_nvrtc = pytest.mark.skipif(
    nvrtc.compiler_name() is None, reason="no CUDA compiler (pip install 'tvm-sparse[cuda]')"
)


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


def typed(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return ``array`` in a dtype by its name, bfloat16 too."""
    return array.astype(getattr(ml_dtypes, dtype, dtype))


def executed(
    emulator: Emulator,
    func: tirx.PrimFunc,
    operands: Iterable[np.ndarray],
    shape: tuple[int, ...],
    dtype: str = "float32",
    change: Change = str,
) -> np.ndarray:
    """Return what a scheduled function's PTX computes; nothing must be wrong about it.

    Floats are returned as fp32. ``change`` may change the PTX before.
    """
    floats = is_float(dtype)
    blank = typed(np.full(shape, np.nan if floats else np.iinfo(dtype).min), dtype)
    (out,), report = emulator.run(tvm.IRModule({"main": func}), list(operands), [blank], change)
    assert not report.findings, report.findings
    return out.astype(np.float32) if floats else out


def block_threads(func: tirx.PrimFunc) -> int:
    """Return the threads of a block of a scheduled function's only kernel."""
    found: dict[str, int] = {}

    def look(loop: tirx.For) -> None:
        if loop.thread_binding is not None:
            found[str(loop.thread_binding.thread_tag)] = int(loop.extent)

    tvm_ffi.structural_walk(func.body, [(tirx.For, look)], order="post")
    return math.prod(found.get(f"threadIdx.{axis}", 1) for axis in "xyz")
