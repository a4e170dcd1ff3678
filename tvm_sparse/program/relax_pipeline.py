"""The passes for those who build with TVM themselves, all of them or a list by names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.target import Target

from tvm_sparse.base.config import Config
from tvm_sparse.base.targets import parse_target
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.relax_module import from_relax
from tvm_sparse.passes import pipeline
from tvm_sparse.schedules.build import build_context
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions

NAME = "tvm_sparse"
OF_ARTIFACTS = ("LiftWeights", "FreeInputs")
"""Passes for programs whose weights lie in a file; here they stay constants of the module."""


def relax_pipeline(
    target: str | Target = "cpu",
    config: Config | None = None,
    *,
    passes: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> tvm.transform.Pass:
    """Return our passes as one pass over Relax modules.

    ``relax.get_pipeline("tvm_sparse", ...)`` is the same once this was imported. ``tvm.compile``
    takes it as ``relax_pipeline``. Weights stay constants, and kernels are built with the settings
    that the caller has; :func:`tvm_sparse.compile` builds the fastest ones. To see what a pass does
    or which one is to blame, name the ``passes`` to run, or those to do ``without``.

    Parameters
    ----------
    target
        What :func:`tvm_sparse.compile` takes.
    config
        The same. Nothing is measured where it says ``measure=False``.
    passes
        Names of passes, in the order to run them, each as the whole pipeline would run it first;
        those of the page "Passes". By default all.
    without
        Names of passes that are left out.

    Returns
    -------
    pass
        It takes a module like :func:`tvm_sparse.compile` does, and returns one that is ready for
        the virtual machine; with ``passes``, what is left behind the last one.

    Raises
    ------
    InputError
        A name is unknown.
    """
    resolved, config = parse_target(target).target, config or Config()
    chosen(steps_of(resolved, config), passes, without)

    @tvm.transform.module_pass(opt_level=0, name=NAME)
    def run(mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        model = from_relax(mod)
        steps = steps_of(resolved, config, model.weights, len(model.inputs))
        return passed(model, chosen(steps, passes, without), resolved)

    return run


def passed(model: Model, steps: Sequence[Any], target: Target) -> tvm.IRModule:
    """Return the module of ``model`` behind ``steps``."""
    found = model.module
    with build_context(target), target:
        for step in steps:
            found = step(found)
    return found


def steps_of(
    target: Target,
    config: Config,
    weights: Mapping[str, np.ndarray] | None = None,
    inputs: int = 1,
) -> list[Any]:
    """Return all passes in order for a model with ``weights`` behind ``inputs``."""
    steps = [
        *pipeline.lowering(weights or {}, inputs, Chooser(target, config, Decisions())),
        *pipeline.schedule(target, {}),
        *pipeline.finalise(target),
    ]
    return [step for step in steps if step.info.name not in OF_ARTIFACTS]


def chosen(
    steps: Sequence[Any], passes: Sequence[str] | None, without: Sequence[str] = ()
) -> list[Any]:
    """Return the steps that are named, in that order, or all, but not those in ``without``.

    Raises
    ------
    InputError
        A name is unknown.
    """
    known: dict[str, Any] = {}
    for step in steps:
        known.setdefault(step.info.name, step)
    for name in (*(passes or ()), *without):
        if name not in known:
            raise InputError("passes", f"'{name}'", f"some of {', '.join(known)}")
    found = steps if passes is None else [known[name] for name in passes]
    return [step for step in found if step.info.name not in without]


relax.register_pipeline(NAME)(relax_pipeline)
