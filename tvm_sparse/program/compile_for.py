"""``ts.compile_for``: one artifact for several CPUs, or for several GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvm.target import Target

from tvm_sparse.artifact.cpu import machine, required_cpu_features
from tvm_sparse.base.config import Config, Precision
from tvm_sparse.base.interrupts import whole_imports
from tvm_sparse.base.phases import Progress
from tvm_sparse.base.targets import (
    capability,
    cuda_archs,
    device_name,
    is_launched,
    parse_target,
    programs_of,
)
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.load import load
from tvm_sparse.frontends.model import Model
from tvm_sparse.program.compiler import library_of
from tvm_sparse.program.library import Library


@whole_imports()
def compile_for(
    model: Any,
    example_inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    targets: Sequence[str | Target],
    dynamic_shapes: Any = None,
    precision: Precision | None = None,
    config: Config | None = None,
    database: str | Path | None = None,
    progress: Progress | None = None,
) -> Library:
    """Compile a pruned model for several CPUs of one architecture, or for several GPUs.

    Parameters
    ----------
    model, example_inputs, kwargs, dynamic_shapes, precision, config, database, progress
        As for :func:`tvm_sparse.compile`. The model is imported once; ``progress`` is told of each
        target's compilation.
    targets
        CPUs, for example ``["cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:znver4"]``, or GPUs,
        ``["cuda:sm_80", "cuda:sm_90", "cuda:sm_90a"]``.

    Returns
    -------
    library
        The one for the CPU with the fewest instruction sets, or for the oldest GPU. ``export``
        writes all of them into one artifact, with equal weights once; each machine takes the best
        that it can run.

    Raises
    ------
    InputError
        There is no target, CPUs and GPUs are mixed, CPUs differ in architecture, or two programs
        have code for one GPU.
    """
    config = config or Config()
    config = config if precision is None else replace(config, precision=precision)
    if config.refreshable:
        raise InputError("Config, refreshable", "True", "False where there are several targets")
    if isinstance(targets, str | Target):
        raise InputError("targets", f"is one, {targets}", "a list", f"pass [{str(targets)!r}]")
    named = [one for name in targets for one in programs_of(name)]
    resolved = [parse_target(name) for name in named]
    _check([one.target for one in resolved])
    resolved.sort(key=lambda one: _order(one.target))
    examples = (example_inputs, kwargs)

    def imported() -> Model:
        return load(model, *examples, dynamic_shapes=dynamic_shapes)

    return library_of(imported, resolved, examples, config, database, progress)


def _check(targets: Sequence[Target]) -> None:
    if not targets:
        raise InputError("targets", "none", "at least one CPU or GPU")
    devices = {device_name(target) for target in targets}
    if len(devices) > 1:
        found = f"code for {', '.join(sorted(devices))}"
        raise InputError("targets", found, "CPUs only, or GPUs only")
    archs = Counter(arch for target in targets for arch in cuda_archs(target))
    if twice := [arch for arch, count in archs.items() if count > 1]:
        raise InputError("targets", f"several programs for {twice[0]}", "one for each GPU")
    machines = sorted({machine(_host(target)) for target in targets})
    if len(machines) > 1:
        raise InputError("targets", f"{' and '.join(machines)}", "one architecture")


def _order(target: Target) -> tuple[int, str]:
    """Return what the first program has least of: instruction sets, or a GPU's version."""
    arch = str(target.attrs["arch"]) if cuda_archs(target) else ""
    return (capability(arch) if arch else len(required_cpu_features(target))), arch


def _host(target: Target) -> Target:
    """Return the target of the code that a CPU runs."""
    return target.host if is_launched(target) else target
