"""A program as compiled parts, and PyTorch for what lies between them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from tvm_sparse.dynamo.attributes import attribute, make_attribute
from tvm_sparse.dynamo.support import Support, told
from tvm_sparse.frontends.converters.corrected import layer_of
from tvm_sparse.frontends.program.operator_names import operator_name


@dataclass(frozen=True)
class Eager:
    """An operator that PyTorch runs: the layer it is in, and why."""

    operator: str
    layer: str
    reason: str


@dataclass(frozen=True)
class Part:
    """A compiled part: its library, and whether that came from the cache."""

    library: Any = field(repr=False)
    cached: bool
    decisions: tuple[Mapping[str, Any], ...] = field(repr=False)
    export: Callable[..., Path] = field(repr=False)


class Call(nn.Module):
    """A part in a graph: called with tensors, returns one or a tuple of several."""

    def __init__(self, part: Part, several: bool) -> None:
        super().__init__()
        self.part, self.several = part, several

    def forward(self, *args: Any) -> Any:
        """Run the library on the tensors among ``args``."""
        found = self.part.library.run(*(a for a in args if isinstance(a, torch.Tensor)))
        return found if self.several else found[0]


def split(
    module: fx.GraphModule, shared: set[str], compile_part: Callable[[fx.GraphModule], Part]
) -> tuple[fx.GraphModule, list[Part], list[Eager]]:
    """Return ``module`` with compiled parts in it, these, and what PyTorch runs.

    Parameters
    ----------
    module
        A functional graph of ATen operators with their values in ``meta["val"]``.
    shared
        Names of views that PyTorch has to compute.
    compile_part
        Compiles a graph, whose weights are attributes; raises what cannot be compiled.
    """
    reasons = _reasons(module, shared)
    supported = _Supported(reasons)
    partitioner = CapabilityBasedPartitioner(module, supported)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    parts, eager = [], []
    for node in list(fused.graph.nodes):
        if node.op == "call_module" and str(node.target).startswith("fused_"):
            part: Any = fused.get_submodule(str(node.target))
            _take_weights(fused, node, part)
            try:
                made = compile_part(part)
            except Exception as error:  # PyTorch runs what cannot be compiled
                reason = told(error)
                eager += [_eager(n, reason) for n in part.graph.nodes if n.op == "call_function"]
                continue
            parts.append(made)
            several = isinstance(part.graph.output_node().args[0], (tuple, list))
            setattr(fused, str(node.target), Call(made, several))
        elif node.op == "call_function" and node.target is not operator.getitem:
            eager.append(_eager(node, reasons.get(node.name) or "alone between other operators"))
    fused.graph.lint()
    fused.recompile()
    return fused, parts, eager


class _Supported(OperatorSupportBase):
    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = reasons

    def is_node_supported(self, _submodules: Any, node: fx.Node) -> bool:
        return node.op == "call_function" and not self.reasons.get(node.name)


def _reasons(module: fx.GraphModule, shared: set[str]) -> dict[str, str]:
    """Return why PyTorch has to run an operator, by the names of those that it must."""
    support, reasons = Support(), {}
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        if node.name in shared:
            reasons[node.name] = "its result shares memory with an argument or another result"
        elif node.target is operator.getitem:
            reasons[node.name] = reasons.get(node.args[0].name, "")
        else:
            reasons[node.name] = support.refusal(node)
    return reasons


def _eager(node: fx.Node, reason: str) -> Eager:
    return Eager(operator_name(node.target), layer_of(node), reason)


def _take_weights(outer: fx.GraphModule, call: fx.Node, part: fx.GraphModule) -> None:
    """Make attributes of ``outer`` that are arguments of a part attributes of the part."""
    placeholders = part.graph.find_nodes(op="placeholder")
    kept = []
    for given, node in zip(call.args, placeholders, strict=True):
        if not isinstance(given, fx.Node) or given.op != "get_attr":
            kept.append(given)
            continue
        make_attribute(part, node, str(given.target), attribute(outer, str(given.target)))
    call.args = tuple(kept)
    part.recompile()
