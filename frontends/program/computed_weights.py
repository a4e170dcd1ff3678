"""What a program computes from its weights alone is a weight: PyTorch computes it once, here.

before: ``linear(x, w * (abs(w) >= topk(abs(w))))`` --> after: ``linear(x, computed)``

Masks and norms of weights stay in the graph: folding constants knows them, and keeps the names and
values of the weights that they were made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.utils import _pytree as pytree

from tvm_sparse.base.names import plain_name
from tvm_sparse.frontends.program.operator_names import base_name

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)

_MOVES = {
    *("_to_copy", "clone", "cat", "stack", "flip", "alias", "detach", "expand", "permute", "view"),
    *("reshape", "slice", "select", "squeeze", "unsqueeze", "transpose", "t", "split", "unbind"),
    *("split_with_sizes", "_unsafe_view", "lift_fresh_copy", "narrow", "diagonal"),
}
"""Operators that compute nothing."""

_FOLDED = {
    *("add", "sub", "rsub", "mul", "div", "neg", "where", "maximum", "minimum", "sqrt", "exp"),
    *("mean", "sum", "var", "pow", "rsqrt", "full", "full_like", "scalar_tensor", "arange"),
    *("zeros", "ones", "zeros_like", "ones_like", "linalg_vector_norm", "norm", "reciprocal"),
    *("abs", "relu", "sigmoid", "tanh", "erf", "silu", "gelu", "_softmax", "std", "round"),
}
"""Operators that constants are folded through later on."""

_PRODUCTS = {
    *("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "einsum"),
    *("convolution", "conv1d", "conv2d", "conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
}
"""Operators that multiply activations by weights; what others read is left to the graph."""

_FACTS = torch.ops.aten._assert_tensor_metadata.default

MOST = 1 << 20
"""Elements that a result may have whatever it is made of; it may have four times those of that."""


class Weights:
    """The nodes of a program that depend on weights alone, with their values when asked."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        held = {**program.constants, **program.state_dict}
        self.names: dict[fx.Node, str] = {}
        self.values: dict[fx.Node, Any] = {}
        self.sources: dict[fx.Node, set[fx.Node]] = {}
        self.unknown: set[fx.Node] = set()
        nodes = program.graph.find_nodes(op="placeholder")
        self.parameters: set[fx.Node] = set()
        for spec, node in zip(program.graph_signature.input_specs, nodes, strict=True):
            value = held.get(spec.target or "")
            if spec.kind in _WEIGHTS and _is_plain(value):
                self.names[node], self.values[node] = str(spec.target), value
                self.sources[node] = {node}
                if spec.kind is InputKind.PARAMETER:
                    self.parameters.add(node)
        for node in program.graph.nodes:
            if node.op == "call_function" and _is_function(node):
                inputs = node.all_input_nodes
                if all(i in self.sources for i in inputs):
                    self.sources[node] = set().union(*(self.sources[i] for i in inputs))
                    if base_name(node) not in _MOVES | _FOLDED or self.unknown.intersection(inputs):
                        self.unknown.add(node)

    def computed(self) -> Iterator[fx.Node]:
        """Yield the last nodes that compute a product's weight, where only PyTorch can."""
        for node, sources in self.sources.items():
            value = node.meta.get("val")
            if node not in self.unknown or not sources or not isinstance(value, torch.Tensor):
                continue
            if base_name(node) in _MOVES or all(self._goes_on(user) for user in node.users):
                continue
            if not self._is_multiplied(node):
                continue
            size = sum(self.values[source].numel() for source in sources)
            if value.numel() <= max(MOST, 4 * size):
                yield node

    def value(self, node: fx.Node) -> Any:
        """Return the value of ``node``, which depends on weights alone."""
        if node in self.values:
            return self.values[node]
        for needed in node.all_input_nodes:
            if needed not in self.values:
                self.values[needed] = self.value(needed)
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.values.__getitem__)
        target: Any = node.target
        return target(*args, **kwargs)

    def name(self, node: fx.Node) -> str:
        """Return a name for ``node``: that of the largest weight that it is made of."""

        def rank(source: fx.Node) -> tuple[bool, bool, int]:
            value = self.values[source]
            return value.is_floating_point(), source in self.parameters, value.numel()

        return plain_name(self.names[max(self.sources[node], key=rank)])

    def _goes_on(self, user: fx.Node) -> bool:
        """Whether ``user`` depends on weights alone, too, and computes with them."""
        if user not in self.sources:
            return False
        return base_name(user) not in _MOVES or all(map(self._goes_on, user.users))

    def _is_multiplied(self, node: fx.Node) -> bool:
        """Whether a product reads ``node``, perhaps through what else is made of weights alone."""
        return any(
            self._is_multiplied(user) if user in self.sources else base_name(user) in _PRODUCTS
            for user in node.users
        )


def compute_weights(program: torch.export.ExportedProgram) -> None:
    """Put what ``program``, which is ours, computes from its weights in the place of that.

    Names are those of the weights, or, if both are read, with ``_computed`` behind them. What the
    program returns stays computed.
    """
    weights = Weights(program)
    names: dict[fx.Node, str] = {}
    for node in list(weights.computed()):
        with torch.no_grad():
            value = weights.value(node).detach().contiguous()
        made = add_weight(program, weights.name(node), value)
        names[made] = weights.name(node)
        made.meta = {"val": node.meta["val"]}
        weights.values[made] = value
        node.replace_all_uses_with(made, delete_user_cb=lambda user: user.op != "output")
    for node in program.graph.find_nodes(op="call_function", target=_FACTS):
        program.graph.erase_node(node)  # the program was traced with these types
    program.graph.eliminate_dead_code()
    _take_names(program, names)
    program.graph_module.recompile()


def _take_names(program: torch.export.ExportedProgram, names: dict[fx.Node, str]) -> None:
    """Give what was computed the name of its weight, where nothing else reads that."""
    specs = program.graph_signature.input_specs
    places = program.graph.find_nodes(op="placeholder")
    held = dict(zip(places, specs, strict=True))
    for made, name in names.items():
        before = next((node for node, spec in held.items() if spec.target == name), made)
        if before is made or before.users or not made.users:
            continue
        specs.remove(held.pop(before))
        program.graph.erase_node(before)
        state = dict(program.state_dict)
        state[name] = state.pop(str(held[made].target))
        held[made].target = name
        program._state_dict = state


def add_weight(program: torch.export.ExportedProgram, name: str, value: torch.Tensor) -> fx.Node:
    """Return the argument of ``program`` for one more weight."""
    specs = program.graph_signature.input_specs
    taken = {spec.target for spec in specs}
    while name in taken:
        name += "_computed"
    place = next((i for i, s in enumerate(specs) if s.kind not in _WEIGHTS), len(specs))
    inputs = program.graph.find_nodes(op="placeholder")
    first = inputs[place] if place < len(inputs) else next(iter(program.graph.nodes))
    with program.graph.inserting_before(first):
        made = program.graph.placeholder(f"computed_{name.replace('.', '_')}")
    spec = InputSpec(InputKind.BUFFER, TensorArgument(made.name), name, persistent=True)
    specs.insert(place, spec)
    # Not in place: the caller's program may have the same dictionary.
    program._state_dict = {**program.state_dict, name: value}
    return made


def _is_plain(value: Any) -> bool:
    kinds = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return type(value) in kinds and value.layout == torch.strided and not value.is_meta


def _is_function(node: fx.Node) -> bool:
    """Whether the result of ``node`` depends on its operands alone, and has static extents."""
    target = node.target
    if base_name(node) == "getitem":
        return True
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return False
    seeded = torch.Tag.nondeterministic_seeded in target.tags
    if seeded or target._schema.is_mutable or base_name(node).startswith(("empty", "new_empty")):
        return False
    values = [v for v in pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
    return bool(values) and all(isinstance(e, int) for v in values for e in v.shape)
