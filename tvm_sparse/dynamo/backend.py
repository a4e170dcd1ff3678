"""The function that Dynamo calls with each graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from tvm_sparse.dynamo.devices import home_of, refusal
from tvm_sparse.dynamo.frozen import is_number, is_weight
from tvm_sparse.dynamo.graph import Graph
from tvm_sparse.dynamo.options import parse_options
from tvm_sparse.dynamo.report import remember
from tvm_sparse.errors import InputError


def backend(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Return a function that runs ``graph`` compiled.

    Parameters
    ----------
    graph, inputs
        What Dynamo traced, and its arguments.
    options
        Fields of :class:`~tvm_sparse.dynamo.options.Options`.
    mode
        Not for this backend.

    Raises
    ------
    InputError
        An option is unknown or not valid.
    """
    if mode is not None:
        raise InputError("mode", f"is '{mode}'", "no mode", "use options")
    asked = parse_options(options)
    given = list(zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True))
    tensors = [v for n, v in given if isinstance(v, torch.Tensor) and not is_number(n)]
    home = home_of(tensors)
    reason = refusal(graph.graph, tensors, home, asked.target)
    made = Graph(graph, replace(asked, target=asked.target or home.type), home)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        made.refuse("any", "gradients are on (compiled graphs are for torch.no_grad())")
    elif reason:
        made.refuse("any", reason)
    weights = [value for node, value in given if is_weight(node)]
    made.owners += [weakref.ref(weight) for weight in weights]
    remember(made)
    return made.graph if "any" in made.refused else made
