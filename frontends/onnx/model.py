"""From an ONNX file to a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.exc import UserError
from torch.fx.experimental import _config as fx_config

from tvm_sparse.errors import InputError, SparseError
from tvm_sparse.frontends.exported import from_exported
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.onnx.cut import cut
from tvm_sparse.frontends.onnx.dimensions import examples
from tvm_sparse.frontends.onnx.network import Network
from tvm_sparse.frontends.onnx.reader import read_onnx
from tvm_sparse.frontends.onnx.weights import take_weights
from tvm_sparse.frontends.part import Part
from tvm_sparse.frontends.quiet import quiet
from tvm_sparse.names import printable


def to_model(proto: Any, source: str) -> Model:
    """Import a checked ``ModelProto``, whose weights are taken out of it.

    Parameters
    ----------
    proto
        What :func:`~tvm_sparse.frontends.onnx.reader.read_onnx` returns.
    source
        How messages call the model.

    Raises
    ------
    InputError
        A node cannot be imported.
    """
    network = Network(proto, take_weights(proto)).eval()
    tensors, shapes, symbols = examples(proto.graph)
    try:
        program = _traced(network, tensors, shapes)
    except SparseError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            source,
            f"cannot be traced ({lines[0]})",
            "shapes that follow from the shapes of the inputs",
            "export the model again, with static extents where it needs them",
        ) from error
    for node in program.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                key: (network.node_names.get(path, path), kind)
                for key, (path, kind) in stack.items()
            }
    return _renamed(from_exported(program, symbols), network)


def _traced(
    network: Network, tensors: list[torch.Tensor], shapes: list[dict[int, Any]]
) -> torch.export.ExportedProgram:
    """Return the program of ``network``.

    Its free extents are as small as its windows let them be: where that is more than one, the
    exporter finds the bounds, which it may not if they are given.
    """
    # Else whether an extent is one, which nothing here asks for, is a condition of the program.
    oblivious = fx_config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]

    def exported(open_: list[dict[int, Any]]) -> torch.export.ExportedProgram:
        given = (tuple(open_),) if tensors else None
        return torch.export.export(network, tuple(tensors), dynamic_shapes=given)

    with quiet(), torch.no_grad(), oblivious:
        try:
            return exported(shapes)
        except UserError:
            bounded = exported([dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in shapes])
            if _open_axes(bounded) != [sorted(axes) for axes in shapes]:
                raise
            return bounded


def _open_axes(program: torch.export.ExportedProgram) -> list[list[int]]:
    """Return the axes of each input whose extent is a symbol."""
    inputs = set(program.graph_signature.user_inputs)
    values = (node.meta["val"] for node in program.graph.nodes if node.name in inputs)
    return [[i for i, n in enumerate(v.shape) if not isinstance(n, int)] for v in values]


def _renamed(model: Model, network: Network) -> Model:
    """Give weights, inputs and outputs their names in the graph."""
    names = network.weight_names
    if len(model.outputs) != len(network.output_names):
        found = f"its graph gives {len(model.outputs)} tensors"
        wanted = f"{len(network.output_names)}, one for each output"
        raise InputError(f"output '{network.output_names[0]}'", found, wanted)
    inputs = zip(model.inputs, network.input_names, strict=True)
    outputs = zip(model.outputs, network.output_names, strict=True)
    return replace(
        model,
        structure=None,  # ONNX has tensors in and out only
        output_spec=None,
        weights={printable(names.get(name, name)): v for name, v in model.weights.items()},
        inputs=tuple(replace(spec, name=printable(name)) for spec, name in inputs),
        outputs=tuple(replace(spec, name=printable(name)) for spec, name in outputs),
    )


def load_onnx(path: Path, part: Part | None = None) -> Model:
    """Import the ONNX file ``path``, or a part of it; symbolic dimensions stay symbolic.

    Raises
    ------
    InputError
        ``onnx`` is not installed, the file is missing or damaged, or an operator is unknown.
    """
    proto = read_onnx(path)
    return to_model(cut(proto, part) if part else proto, str(path))
