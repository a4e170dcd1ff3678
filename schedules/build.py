"""From one scheduled function to machine code, with the settings that schedules rely on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tvm
from tvm import tirx
from tvm.target import Target

from tvm_sparse.base.table import Table
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.schedules.blocks import LoopRV
from tvm_sparse.schedules.cpu.device import CPU
from tvm_sparse.schedules.cuda.device import GPU
from tvm_sparse.schedules.device import Device
from tvm_sparse.schedules.rule import ScheduleRule, first_schedule

PASS_CONFIG: dict[str, Any] = {
    "s_tir.LoopPartition": {"partition_const_loop": True},
    "tirx.disable_assert": True,
}
"""Partial tiles are cut off by loop partition, so that full tiles carry no conditions. Functions do
not check their arguments, which took half of the code: a program's inputs are checked by its
session and by the virtual machine, and what it hands on is as it was compiled."""

OWN_RULES: Table[tuple[ScheduleRule, ...]] = Table("kind")
"""The schedule rules of third parties' sparsity kinds, tried before those of the target."""


DEVICES: Table[Device] = Table("device", {"llvm": CPU, "cuda": GPU})
"""By the kind of TVM's target."""


def device_of(target: Target) -> Device:
    """Return how functions are built for ``target``'s kind."""
    kind = target.kind.name
    if kind not in DEVICES.parts():
        known = " or ".join(f"'{name}'" for name in DEVICES.parts())
        raise UnsupportedError("target", f"kind '{kind}'", known, "use --target cpu")
    return DEVICES.parts()[kind]


def rules_for(target: Target) -> tuple[ScheduleRule, ...]:
    """Return the schedule rules of ``target``'s kind, in the order in which they are tried."""
    return (*(rule for rules in OWN_RULES for rule in rules), *device_of(target).rules)


def pass_config(target: Target) -> dict[str, Any]:
    """Return the pass settings that the schedules of ``target`` rely on."""
    return {**PASS_CONFIG, **device_of(target).pass_config}


@contextlib.contextmanager
def build_context(target: Target) -> Iterator[None]:
    """Enter everything that a build of our schedules needs.

    That is the target, pass settings, and vector math on CPUs or our compiler flags on GPUs. The
    caller's pass context stays in force: its instruments, settings of other passes, disabled
    passes and optimization level.
    """
    with target, _pass_context(pass_config(target)), device_of(target).context(target):
        yield


def _pass_context(config: dict[str, Any]) -> contextlib.AbstractContextManager[object]:
    """Return the caller's pass context with ``config``, or nothing to enter if it has that.

    TVM tells instruments when a context begins and ends, the inner one too; the instrument for
    times forgets them at the end. So a context that needs no change is not entered again.
    """
    outer = tvm.transform.PassContext.current()
    inner = tvm.transform.PassContext(
        opt_level=outer.opt_level,
        required_pass=outer.required_pass,
        disabled_pass=outer.disabled_pass,
        instruments=outer.instruments,
        config={**outer.config, **config},
    )
    if all(name in outer.config and _same(outer, inner, name) for name in config):
        return contextlib.nullcontext()
    return inner


def _same(outer: LoopRV, inner: LoopRV, name: str) -> bool:
    """Whether two pass contexts have the same setting; TVM compares only their texts."""
    return str(outer.config[name]) == str(inner.config[name])


def build_function(
    func: tirx.PrimFunc, target: Target, first: tuple[ScheduleRule, ...] = ()
) -> Any:
    """Schedule and build a single operator definition; its entry point is called ``main``.

    The rules ``first`` are tried before the target's own.
    """
    return build_scheduled(scheduled(func, target, first), target).mod


def build_scheduled(module: tvm.IRModule, target: Target) -> Any:
    """Build a module of scheduled functions."""
    with build_context(target):
        device = device_of(target)
        passes = [*device.splitting(), *device.after_scheduling(target)]
        finished = tvm.transform.Sequential(passes)(module)
        return tvm.compile(finished, target=device.options(target, finished))


def scheduled(
    func: tirx.PrimFunc, target: Target, first: tuple[ScheduleRule, ...] = ()
) -> tvm.IRModule:
    """Return a module with ``func`` as ``main``, scheduled by the first rule that takes it."""
    rules = (*first, *rules_for(target))
    found = first_schedule(func.with_attr("global_symbol", "main"), target, rules)
    return found[0].mod if found else tvm.IRModule({"main": func})
