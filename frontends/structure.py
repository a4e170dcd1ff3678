"""The arguments and results of a PyTorch program, in plain form and back in their own classes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument
from torch.utils import _pytree as pytree

from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse_runtime.structure import Structure, leaves, value

_CONSTANTS = (bool, int, float, str)


def structure_of(program: torch.export.ExportedProgram) -> Structure:
    """Return how the inputs and outputs of ``program`` are nested.

    Raises
    ------
    InputError
        An input or output is neither a tensor nor a constant.
    """
    specs = program.graph_signature.input_specs
    given = [spec.arg for spec in specs if spec.kind is InputKind.USER_INPUT]
    arguments, keywords = program.call_spec.in_spec.children()
    inputs = _leaves(given, "input")
    positional = [tree_of(spec, inputs) for spec in arguments.children()]
    named = [tree_of(spec, inputs) for spec in keywords.children()]
    names = [*_positional_names(program, len(positional)), *keywords.context]
    outputs = _leaves(_returned(program), "output")
    return Structure(
        tuple(zip(names, [*positional, *named], strict=True)),
        tree_of(program.call_spec.out_spec, outputs),
    )


def is_flat(structure: Structure, inputs: Sequence[str]) -> bool:
    """Whether a program takes tensors called ``inputs`` and returns one, or a tuple of several."""
    output = structure.output
    flat = {"tuple": [*range(len(list(leaves(output))))]}
    names = [(name, place) for place, name in enumerate(inputs)]
    return list(structure.arguments) == names and (
        output == 0 or (output == flat and len(flat["tuple"]) > 1)
    )


class FlatProgram(nn.Module):
    """A program called with its tensors alone, in the order of the inputs."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__()
        self.program, self.spec = program.module(), program.call_spec.in_spec
        self.leaves = [leaf for _, tree in structure_of(program).arguments for leaf in leaves(tree)]

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return what the program returns."""
        arguments = [value(leaf, tensors) for leaf in self.leaves]
        args, named = pytree.tree_unflatten(arguments, self.spec)
        return self.program(*args, **named)


def restored(structure: Structure, spec: Any, tensors: Sequence[Any]) -> Any:
    """Return ``tensors`` as the model returns them, in the classes that ``spec`` names."""
    return pytree.tree_unflatten([value(leaf, tensors) for leaf in leaves(structure.output)], spec)


def plain_spec(spec: Any) -> Any:
    """Return ``spec`` as classes and lists, which travel between processes; None for a leaf."""
    if spec is None or spec.is_leaf():
        return None
    return spec.type, spec.context, [plain_spec(child) for child in spec.children()]


def spec_of(plain: Any) -> pytree.TreeSpec:
    """Undo :func:`plain_spec`."""
    if plain is None:
        return pytree.tree_structure(0)
    kind, context, children = plain
    return pytree.TreeSpec(kind, context, [spec_of(child) for child in children])


def tree_of(spec: pytree.TreeSpec, given: Iterator[Any]) -> Any:
    """Return the tree of ``spec``, whose leaves are taken from ``given``."""
    if spec.is_leaf():
        return next(given)
    children = [tree_of(child, given) for child in spec.children()]
    return _node(spec.type, spec.context, children)


def plain(given: Any) -> Any:
    """Return ``given`` with tuples and dictionaries for other containers that PyTorch knows."""
    kind = pytree._get_node_type(given)
    if kind not in pytree.SUPPORTED_NODES:
        return given
    children, context = pytree.SUPPORTED_NODES[kind].flatten_fn(given)
    tree = _node(kind, context, [plain(child) for child in children])
    (made,) = tree.values()
    return tuple(made) if "tuple" in tree else made


def _node(kind: Any, context: Any, children: list[Any]) -> dict[str, Any]:
    """Return a container as a tree: one whose context names its children is a dictionary."""
    keys = context[1] if kind is pytree.defaultdict else context
    if isinstance(keys, list) and keys and isinstance(keys[0], list):
        keys = keys[0]  # followed by what else the class has to know
    if isinstance(keys, list) and keys and len(keys) == len(children):
        if not all(isinstance(key, str) for key in keys):
            raise UnsupportedError(
                "model", f"has a mapping with the keys {keys}", "keys that are text"
            )
        return {"dict": dict(zip(keys, children, strict=True))}
    if isinstance(kind, type) and issubclass(kind, dict) and not children:
        return {"dict": {}}
    return {"list" if kind is list else "tuple": children}


def _leaves(arguments: Sequence[Any], role: str) -> Iterator[Any]:
    """Yield the leaf of a tree for each argument: tensors by their place, constants as such."""
    place = 0
    for argument in arguments:
        if isinstance(argument, TensorArgument):
            yield place
            place += 1
        elif not isinstance(argument, ConstantArgument):
            found = "is a number that values or shapes decide"
            todo = "return the tensor that has it, and call item() behind the model"
            raise InputError(f"{role} '{argument.name}'", found, "a tensor or constant", todo)
        elif argument.value is None:
            yield None
        elif isinstance(argument.value, _CONSTANTS):
            yield {"value": argument.value}
        else:
            found = type(argument.value).__name__
            raise InputError(f"{role} '{argument.name}'", f"is a {found}", "a tensor or constant")


def _returned(program: torch.export.ExportedProgram) -> list[Any]:
    from torch.export.graph_signature import OutputKind

    kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
    return [s.arg for s in program.graph_signature.output_specs if s.kind in kinds]


def _positional_names(program: torch.export.ExportedProgram, count: int) -> list[str]:
    """Return the names of positional arguments: those of ``forward`` where they are known."""
    signature = program.module_call_graph[0].signature
    known = list(signature.forward_arg_names or ()) if signature else []
    return [*known[:count], *(f"argument_{i}" for i in range(len(known[:count]), count))]


def without_structure(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` with its leaves as positional arguments and as a tuple of results.

    PyTorch traces a program anew when it decomposes it, and what classes compute when they are
    built would become part of the program: key-value caches of transformers do.
    """
    call = program.call_spec
    arguments = pytree.tree_structure(((None,) * call.in_spec.num_leaves, {}))
    results = pytree.tree_structure((None,) * call.out_spec.num_leaves)
    specs = program.graph_signature.input_specs
    names = [spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT]
    first, *rest = program.module_call_graph
    signature = replace(
        cast("Any", first.signature), in_spec=arguments, out_spec=results, forward_arg_names=names
    )
    flat = copy.copy(program)
    flat._guards_code = []  # of its arguments, which have other names now
    flat._module_call_graph = [replace(first, signature=signature), *rest]
    if program.example_inputs is not None:
        flat._example_inputs = (tuple(pytree.tree_leaves(program.example_inputs)), {})
    return flat
