"""``ts.method_for``: for each layer, the pattern a machine multiplies fastest at a sparsity."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from torch import nn
from tvm.target import Target

from tvm_sparse.base.config import Config
from tvm_sparse.base.interrupts import whole_imports
from tvm_sparse.base.progress import ReportProgress, shown
from tvm_sparse.base.targets import device_name, parse_target
from tvm_sparse.errors import InputError
from tvm_sparse.planning.api import of_file
from tvm_sparse.planning.candidates import Candidate
from tvm_sparse.planning.losses import prunable
from tvm_sparse.planning.networks import FLOAT, Networks
from tvm_sparse.pruning.compensation.calls import Batch
from tvm_sparse.pruning.functions import block_method, n_m_method
from tvm_sparse.pruning.methods.balanced import BalancedPruning
from tvm_sparse.pruning.methods.base import Method, check_sparsity
from tvm_sparse.pruning.methods.layers import LayerPruning
from tvm_sparse.pruning.one_shot import batches_of

BLOCKS = {
    "cuda": ((64, 64), (128, 64), (32, 32), (16, 16)),
    "cpu": ((16, 1), (16, 16)),
}
"""Rows and columns of the blocks that are tried, by the device."""

LEAST = 1.03
"""How many times as fast as dense a layer has to be: less is nothing."""

_log = logging.getLogger(__name__)


@whole_imports()
def method_for(
    model: Any,
    example_inputs: Batch,
    *,
    target: str | Target,
    sparsity: float,
    include: Sequence[str] = ("*",),
    ignore: Sequence[str] = (),
    config: Config | None = None,
    progress: ReportProgress | None = None,
) -> LayerPruning:
    """Return the pruning method whose zeros ``target`` gains most by, layer by layer.

    The network is compiled with each pattern in all layers. A layer takes the one with the least
    time: measured where code for the target runs, else by the cost model of the machine, so that
    no GPU is needed. It says nothing of accuracy.

    Parameters
    ----------
    model
        A module, which is not changed; or an ``.onnx`` file or ``ModelProto``.
    example_inputs
        Inputs with the shapes that times are for; those of a file are arrays by name.
    target, config
        As for :func:`tvm_sparse.compile`; ``"cuda:h200"`` is the model of that chip.
    sparsity
        Fraction of zeros of each layer.
    include, ignore
        Globs over names of layers, as for :func:`.prune`.
    progress
        Called as ``progress(what, done, total)``; by default bars are drawn on a terminal.

    Returns
    -------
    method
        What :func:`.prune` and :func:`.one_shot` take. Layers that dense kernels are faster for
        have none, and stay dense.

    Raises
    ------
    InputError
        The sparsity is no fraction, or no layer gains by any of the patterns.
    """
    check_sparsity(sparsity)
    if not isinstance(model, nn.Module):
        model, _, example_inputs = of_file(model, (), example_inputs)
    batches = batches_of([example_inputs])
    network, selection = prunable(model, batches, include, ignore)
    methods = methods_at(sparsity, parse_target(target).target)
    pruned = [Candidate(method, family, sparsity) for family, method in enumerate(methods, 1)]
    networks = Networks(network, selection, batches[0], batches, target, config or Config())
    with shown(progress) as told:
        costs = networks.costs(FLOAT, [Candidate(None, 0, 0.0), *pruned], told)
    found: dict[str, Method] = {}
    for layer, us in zip(selection, costs.us, strict=True):
        best = int(us.argmin())
        if us[0] >= LEAST * us[best]:
            found[layer.key] = methods[best - 1]
            said = found[layer.key].describe(), us[0] / us[best], costs.source
            _log.info("%s: %s, %.2f times as fast as dense (%s)", layer.key, *said)
    if not found:
        raise InputError(
            "method for a target",
            f"no layer is faster with {sparsity:.0%} zeros in any pattern ({costs.source})",
            "a layer that gains",
            "ask for more zeros, or for inputs of fewer rows",
        )
    return LayerPruning(found)


def methods_at(sparsity: float, target: Target) -> tuple[Method, ...]:
    """Return what is tried on a target: blocks, banks, and 2:4 where it has as many zeros."""
    blocks = BLOCKS.get(device_name(target), BLOCKS["cpu"])
    two_four = n_m_method()
    return (
        *(block_method(sparsity, rows, cols) for rows, cols in blocks),
        BalancedPruning(sparsity),
        *([two_four] if two_four.sparsity == sparsity else []),
    )
