"""From an ONNX file to a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tvm_sparse.base.names import layer_of, printable
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.part import Part
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.onnx.cut import cut
from tvm_sparse.frontends.onnx.inputs import Given, read_inputs, settled
from tvm_sparse.frontends.onnx.narrow import notes_on
from tvm_sparse.frontends.onnx.network import Network
from tvm_sparse.frontends.onnx.reader import read_onnx
from tvm_sparse.frontends.onnx.trace import Trace
from tvm_sparse.frontends.onnx.tracing import traced
from tvm_sparse.frontends.onnx.weights import nodes_of, take_weights
from tvm_sparse.frontends.program.decided_extents import DecidedExtentError
from tvm_sparse.frontends.program.exported import from_exported


def to_model(proto: Any, source: str, given: Given | None = None) -> Model:
    """Import a checked ``ModelProto``, whose weights are taken out of it.

    Parameters
    ----------
    proto
        What :func:`~tvm_sparse.frontends.onnx.reader.read_onnx` returns.
    source
        How messages call the model.
    given
        What the caller says about the shapes of inputs.

    Raises
    ------
    InputError
        A node cannot be imported, or ``given`` contradicts the file.
    """
    inputs, bounds = settled(read_inputs(proto.graph), given or Given())
    said = notes_on(proto, [*nodes_of(proto)])
    network = Network(proto, take_weights(proto)).eval()
    try:
        model = _imported(network, traced(network, inputs, bounds, source))
    except DecidedExtentError:  # perhaps by an extent that was one
        model = _imported(network, traced(network, inputs, bounds, source, large=True))
    notes = {layer_of(printable(weight)): phrase for weight, phrase in said.items()}
    return replace(model, notes={**model.notes, **notes})


def _imported(network: Network, trace: Trace) -> Model:
    program = trace.program
    for node in program.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                key: (network.node_names.get(path, path), kind)
                for key, (path, kind) in stack.items()
            }
    return _renamed(from_exported(program, trace.symbols, trace.symbol_steps), network)


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


def load_onnx(path: Path, part: Part | None = None, given: Given | None = None) -> Model:
    """Import the ONNX file ``path``, or a part of it; open extents stay open unless ``given``.

    Raises
    ------
    InputError
        ``onnx`` is not installed, the file is missing or damaged, an operator is unknown, or
        ``given`` contradicts the file.
    """
    proto = read_onnx(path)
    return to_model(cut(proto, part) if part else proto, str(path), given)
