"""``ts.compile_for``: one artifact for several CPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm.target import Target

from tvm_sparse.artifact.cpu import machine, required_cpu_features
from tvm_sparse.base.config import Config, Precision
from tvm_sparse.base.phases import Progress
from tvm_sparse.base.targets import device_name, parse_target
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.load import load
from tvm_sparse.program.compiler import compile
from tvm_sparse.program.library import Library


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
    """Compile a pruned model for several CPUs of one architecture.

    Parameters
    ----------
    model, example_inputs, kwargs, dynamic_shapes, precision, config, database, progress
        As for :func:`tvm_sparse.compile`. The model is imported once; ``progress`` is told of each
        target's compilation.
    targets
        CPUs, for example ``["cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:znver4"]``.

    Returns
    -------
    library
        The one for the CPU with the fewest instruction sets. ``export`` writes all of them into one
        artifact, with equal weights once; each machine takes the best that it can run.

    Raises
    ------
    InputError
        There is no target, one is no CPU, or they differ in architecture.
    """
    if config is not None and config.refreshable:
        raise InputError("Config, refreshable", "True", "False where there are several targets")
    if isinstance(targets, str | Target):
        raise InputError("targets", f"is one, {targets}", "a list", f"pass [{str(targets)!r}]")
    resolved = [parse_target(name).target for name in targets]
    _check(resolved)
    resolved.sort(key=lambda target: len(required_cpu_features(target)))
    source = load(model, example_inputs, kwargs, dynamic_shapes=dynamic_shapes)
    first, *others = [
        compile(
            source,
            example_inputs,
            kwargs,
            target=target,
            precision=precision,
            config=config,
            database=database,
            progress=progress,
        )
        for target in resolved
    ]
    first.alternatives = tuple(others)
    return first


def _check(targets: Sequence[Target]) -> None:
    if not targets:
        raise InputError("targets", "none", "at least one CPU")
    devices = {device_name(target) for target in targets}
    if devices != {"cpu"}:
        raise InputError("targets", f"code for {', '.join(sorted(devices))}", "CPUs only")
    machines = sorted({machine(target) for target in targets})
    if len(machines) > 1:
        raise InputError("targets", f"{' and '.join(machines)}", "one architecture")
