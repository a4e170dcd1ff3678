"""From a graph with constant weights to something that runs: compiled whole, or in parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import OutputKind

from tvm_sparse.base.words import aside, said
from tvm_sparse.dynamo.aliases import returns_argument, shared_views
from tvm_sparse.dynamo.cache import compiled
from tvm_sparse.dynamo.devices import HOST, move_from_host
from tvm_sparse.dynamo.options import Options
from tvm_sparse.dynamo.parts import Eager, Part, split
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.frontends.example_inputs import told_apart
from tvm_sparse.frontends.program.computed_weights import compute_weights
from tvm_sparse.frontends.program.memory_layout import refuse_unknown_layouts
from tvm_sparse.frontends.program.taken_apart import taken_apart
from tvm_sparse.frontends.quiet import quiet


@dataclass(frozen=True)
class Runner:
    """What runs a graph: a function of its arguments, compiled parts, and what PyTorch runs."""

    run: Callable[..., Any]
    parts: tuple[Part, ...]
    eager: tuple[Eager, ...] = ()


def exported(
    module: torch.nn.Module, args: Sequence[Any], shapes: Any = None
) -> torch.export.ExportedProgram:
    """Return ``module`` as a program without operators that write to their operands.

    Raises
    ------
    InputError
        It cannot be traced.
    UnsupportedError
        It writes to an argument, a parameter or a buffer.
    """
    with quiet(), torch.no_grad():
        try:
            given = told_apart(module, (tuple(args), {}))
            program = torch.export.export(module, *given, dynamic_shapes=shapes)
            # Nothing is taken apart here, but writes become results with a kind of their own.
            program = taken_apart(program, {})
            compute_weights(program)
        except Exception as error:  # of every kind
            found = f"torch.export cannot trace it{aside(said(error))}"
            raise InputError("graph", found) from error
    specs = program.graph_signature.output_specs
    written = [str(spec.target) for spec in specs if spec.kind is not OutputKind.USER_OUTPUT]
    if written:
        raise UnsupportedError("graph", f"writes to {', '.join(written)}")
    return program


def runner(
    program: torch.export.ExportedProgram, options: Options, home: torch.device, *, whole: bool
) -> Runner:
    """Return ``program`` compiled, in parts unless that is refused by ``whole``.

    It was traced on the host; what PyTorch runs of it runs on ``home``.

    Raises
    ------
    SparseError
        Nothing of it can be compiled.
    """
    # Not in parts either: what they return is contiguous, and PyTorch would read it by strides.
    refuse_unknown_layouts(program)
    module = program.module(check_guards=False)
    _drop_checks(module.graph)
    if not _shares(module.graph):
        try:
            part = compiled(program, options)
            return Runner(_on_tensors(part.library), (part,))
        except Exception:
            if whole:
                raise
    if whole:
        raise UnsupportedError("graph", "returns its arguments, or views of them")
    return _in_parts(module, options, home)


def _in_parts(module: fx.GraphModule, options: Options, home: torch.device) -> Runner:
    shared = {node.name for node in shared_views(module.graph)}

    def compile_part(part: fx.GraphModule) -> Part:
        inputs = [_example(node) for node in part.graph.find_nodes(op="placeholder")]
        return compiled(exported(part, inputs), options)

    fused, parts, eager = split(module, shared, compile_part)
    if not parts:
        raise UnsupportedError("graph", _reasons(eager))
    if home != HOST:
        move_from_host(fused, home)
    return Runner(fused, tuple(parts), tuple(eager))


def _drop_checks(graph: fx.Graph) -> None:
    """Remove checks of types and devices, which Dynamo has made before it calls a graph."""
    check = torch.ops.aten._assert_tensor_metadata.default
    for node in graph.find_nodes(op="call_function", target=check):
        graph.erase_node(node)


def _shares(graph: fx.Graph) -> bool:
    return returns_argument(graph) or bool(shared_views(graph))


def _on_tensors(library: Any) -> Callable[..., Any]:
    return lambda *args: library(*(a for a in args if isinstance(a, torch.Tensor)))


def _example(node: fx.Node) -> torch.Tensor:
    value = node.meta["val"]
    return torch.zeros([int(extent) for extent in value.shape], dtype=value.dtype)


def _reasons(eager: Sequence[Eager]) -> str:
    found = dict.fromkeys(f"'{e.operator}' {e.reason}" for e in eager)
    return "no operator can be compiled: " + "; ".join(found)
