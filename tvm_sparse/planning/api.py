"""``ts.plan``: a recipe from a budget."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, get_args

from torch import nn
from tvm.target import Target

from tvm_sparse.base.config import Config
from tvm_sparse.base.interrupts import whole_imports
from tvm_sparse.base.progress import ReportProgress, shown
from tvm_sparse.base.targets import parse_target, threads_of
from tvm_sparse.errors import InputError
from tvm_sparse.onnx_files.calibration import checked
from tvm_sparse.planning.budget import Budget
from tvm_sparse.planning.candidates import candidates_of
from tvm_sparse.planning.losses import prunable
from tvm_sparse.planning.making import EDITION, tables_of
from tvm_sparse.planning.networks import Networks
from tvm_sparse.planning.plan import Plan
from tvm_sparse.planning.tables import keep, known
from tvm_sparse.pruning.compensation.calls import Batch
from tvm_sparse.pruning.compensation.state import digest
from tvm_sparse.pruning.methods.balanced import BalancedPruning
from tvm_sparse.pruning.methods.base import Method
from tvm_sparse.pruning.one_shot import batches_of
from tvm_sparse.pruning.onnx_models.layers import to_tensor
from tvm_sparse.pruning.onnx_models.network import OnnxNetwork
from tvm_sparse.pruning.recipe import NumericsName

LEVELS = (0.5, 0.625, 0.75, 0.875, 0.9375)
"""Fractions of zeros that a layer may have."""


@whole_imports()
def plan(
    model: Any,
    calibration: Iterable[Batch],
    *,
    speedup: float | None = None,
    latency_ms: float | None = None,
    bytes: float | None = None,
    sparsity: float | None = None,
    max_drop: float | None = None,
    example_inputs: Batch | None = None,
    methods: Sequence[Method] = (BalancedPruning(0.75),),
    levels: Sequence[float] = LEVELS,
    numerics: Sequence[NumericsName] = ("float32",),
    include: Sequence[str] = ("*",),
    ignore: Sequence[str] = (),
    target: str | Target = "cpu",
    config: Config | None = None,
    trials: int = 100,
    seed: int = 0,
    progress: ReportProgress | None = None,
) -> Plan:
    """Choose a method and a level for each layer, so that a budget is kept and little is lost.

    Times are those of compiled networks on this machine, losses those of one-shot pruning on the
    calibration data. Both are kept in the user's cache directory: another budget takes seconds.

    Parameters
    ----------
    model
        A trained module, which is not changed; or the path of an ``.onnx`` file or a
        ``ModelProto``, whose layers are those of :func:`.pruning.onnx`.
    calibration
        Batches as for :func:`.one_shot`; those of a file are arrays, or mappings by the names of
        its inputs.
    speedup, latency_ms, bytes, sparsity, max_drop
        The budget, one of them: times as fast as the dense network in float32; milliseconds of a
        call; bytes of packed weights; fraction of zeros over all weights that may be pruned; one
        minus the mean cosine of the outputs to the dense
        network's, after one-shot pruning without training, in the least time.
    example_inputs
        Inputs with the shapes that times are for; by default the first calibration batch.
    methods, levels
        What layers may be pruned by, each method at each level. A method prunes each layer by
        itself; its own ``sparsity`` does not count.
    numerics
        What the network may be computed in, ``"float32"``, ``"bfloat16"``, ``"int8"`` or
        ``"int8-dynamic"``; the plan takes one of them for all layers.
    include, ignore
        Globs over names of layers, as for :func:`.one_shot`.
    target, config
        As for :func:`tvm_sparse.compile`. Where code for the target does not run, times are
        modelled, and of layers only.
    trials
        Networks that the evolution tries; 0 leaves it out.
    seed
        Of the evolution.
    progress
        Called as ``progress(what, done, total)``; by default bars are drawn on a terminal.

    Raises
    ------
    InputError
        Not one budget, or one that is out of reach: the error names the best that there is.
    """
    given = {"speedup": speedup, "latency_ms": latency_ms, "bytes": bytes}
    budget = Budget.of(**given, sparsity=sparsity, max_drop=max_drop)
    if not isinstance(model, nn.Module):
        model, calibration, example_inputs = of_file(model, calibration, example_inputs)
    batches = batches_of(calibration)
    example = batches[0] if example_inputs is None else example_inputs
    candidates = candidates_of(methods, levels)
    names = _numerics(numerics)
    config = config or Config()
    resolved = parse_target(target).target
    content = (*_versions(), _machine(resolved), config, candidates, names, include, ignore)
    graph = model.document.digest() if isinstance(model, OnnxNetwork) else repr(model)
    tensors = digest([model.state_dict(), batches, example, graph])
    text = repr((EDITION, *content, trials, seed, tensors))
    key = hashlib.sha256(text.encode()).hexdigest()
    tables = known(key) if config.cache else None
    if tables is None:
        network, selection = prunable(model, batches, include, ignore)
        networks = Networks(network, selection, example, batches, target, config)
        with shown(progress) as told:
            tables = tables_of(networks, candidates, names, told, trials=trials, seed=seed)
        if config.cache:
            keep(key, tables)
    return Plan.of(tables, budget)


def of_file(
    source: Any, calibration: Iterable[Any], example: Any
) -> tuple[OnnxNetwork, list[Batch], Batch | None]:
    """Return the network of an ONNX file, and its inputs as tensors by their names."""
    network = OnnxNetwork(source)

    def tensors(batches: Iterable[Any]) -> list[Batch]:
        named = checked(network.document, batches)
        return [{name: to_tensor(array) for name, array in batch.items()} for batch in named]

    return network, tensors(calibration), None if example is None else tensors([example])[0]


def _numerics(names: Sequence[str]) -> tuple[str, ...]:
    """Return ``names`` without repetitions; refuse an unknown one."""
    known_names = get_args(NumericsName)
    if isinstance(names, str) or not names or (odd := set(names) - set(known_names)):
        found = repr(names) if isinstance(names, str) or not names else f"'{sorted(odd)[0]}'"
        raise InputError("plan, numerics", found, f"some of {', '.join(known_names)}")
    return tuple(dict.fromkeys(names))


def _versions() -> tuple[str, ...]:
    return tuple(version(name) for name in ("torch", "apache-tvm", "tvm-sparse"))


def _machine(target: Target) -> tuple[str, ...]:
    """Return what times depend on beside the code."""
    return str(target), str(threads_of(target)), platform.node(), platform.machine()
