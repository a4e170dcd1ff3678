"""``ts.prune.onnx``: an ONNX file with zeros, as an ONNX file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.functions import ALL, prune
from tvm_sparse.pruning.methods.base import Method
from tvm_sparse.pruning.methods.layers import LayerPruning
from tvm_sparse.pruning.one_shot import one_shot
from tvm_sparse.pruning.pruner import Pruner
from tvm_sparse.pruning.recipe import Recipe


def onnx(
    source: Any,
    method: Method | Recipe,
    *,
    calibration: Iterable[Any] | None = None,
    output: str | Path | None = None,
    include: Sequence[str] = ALL,
    ignore: Sequence[str] = (),
    sparsities: Mapping[str, float] | None = None,
    **options: Any,
) -> Pruner:
    """Prune the layers of an ONNX file once; write the file with zeros, and nothing else changed.

    Layers are Gemm, MatMul, convolutions and recurrent nodes whose weights the file has: as
    initializers, values of ``Constant`` nodes or in files beside it, transposed or not. A weight
    that several layers share is pruned once. One that something else reads is left alone, and the
    report says so.

    Parameters
    ----------
    source
        The path of an ``.onnx`` file, or a ``ModelProto`` that holds all of its weights.
    method
        What masks look like; one that decides about each weight. Or a recipe, which says
        ``include`` and ``ignore``, too.
    calibration
        Batches of inputs: arrays, sequences of arrays in the order of the inputs, or mappings by
        their names. With them, :func:`.one_shot` chooses masks by what outputs lose, and fits what
        remains; onnxruntime computes what layers read. Layers inside of ``If`` or ``Loop`` stay
        dense then. Without, the smallest weights go.
    output
        A file to write. ``pruner.model.save(path)`` does it later.
    include, ignore
        Globs over layers, ``ignore`` wins. A layer is known by its weight's name in the file, with
        or without ``.weight``, and by its nodes' names. The module that PyTorch's exporter made a
        node's name from means it, too (``"encoder.0.fc"`` for ``"/encoder/0/fc/MatMul"``).
    sparsities
        Sparsities of single layers by these names, in place of the method's.
    options
        Those of :func:`.one_shot`: ``damping``, ``steps``, ``reference``, ``swaps``, ``resume``,
        ``progress``.

    Returns
    -------
    pruner
        With masks and the report. Its ``model`` is an :class:`.OnnxNetwork`.

    Raises
    ------
    InputError
        The file cannot be read or has no such layer, a name is unknown, the method needs a PyTorch
        module, or calibration data do not fit the model's inputs.
    """
    from tvm_sparse.onnx_files.calibration import checked
    from tvm_sparse.pruning.onnx_models.layers import to_tensor
    from tvm_sparse.pruning.onnx_models.network import OnnxNetwork

    if isinstance(method, Recipe):
        method.check_one_step("recipe")
        include, ignore, method = method.include, method.ignore, method.method
    network = OnnxNetwork(source)
    _check(method, network.document.name, calibrated=calibration is not None)
    method, levels = _named(method, sparsities or {}, network)
    chosen: dict[str, Any] = {
        "include": _layers(include, network),
        "ignore": _layers(ignore, network),
    }
    if calibration is not None:
        batches = [
            {name: to_tensor(array) for name, array in batch.items()}
            for batch in checked(network.document, calibration)
        ]
        network.values()
        pruner = one_shot(network, batches, method, sparsities=levels, **chosen, **options)
    elif levels or options:
        given = ", ".join(["sparsities"] * bool(levels) + [*options])
        raise InputError(given, "is only used with calibration data", "calibration batches")
    else:
        pruner = prune(network, method, **chosen)
    if output is not None:
        network.save(output)
    return pruner


def _check(method: Method, source: str, *, calibrated: bool) -> None:
    """Refuse methods that need more of a network than a file has."""
    if method.structural:
        raise InputError(
            source,
            f"'{method.describe()}' follows channels through a PyTorch module",
            "balanced, n_m, block, joint, unstructured or layers",
            "prune the module, then export it",
        )
    if method.gradients and not calibrated:
        raise InputError(
            source,
            f"'{method.describe()}' ranks by gradients, which a file has not",
            "criterion='magnitude', or calibration data",
        )


def _named(
    method: Method, sparsities: Mapping[str, float], network: Any
) -> tuple[Method, dict[str, float]]:
    """Return both with the layers' own names in place of those that users know."""
    if isinstance(method, LayerPruning):
        method = replace(method, layers=_by_key(method.layers, network, "layers"))
    return method, _by_key(sparsities, network, "sparsities")


def _by_key(given: Mapping[str, Any], network: Any, what: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        keys = [f"{layer}.weight" for layer in network.names_of(name)] or [name]
        for key in keys:
            if key in found:
                raise InputError(f"{what}, {name}", f"names '{key}' a second time", "each once")
            found[key] = value
    return found


def _layers(globs: Sequence[str], network: Any) -> list[str]:
    """Return ``globs`` with the names of layers in place of what only means them."""
    names: list[str] = []
    for glob in globs:
        names += [glob] if glob == "*" else network.names_of(glob) or [glob]
    return names
