"""Which channels of a network belong together: a channel graph traced with ``torch.fx``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import fx, nn

from tvm_sparse.pruning.layers import CONV, DEPTHWISE, GROUPED, LINEAR
from tvm_sparse.pruning.structure.operations import (
    ADD,
    CONSTANT,
    FLATTEN,
    INPUT,
    MOVES_ZERO,
    MUL,
    NORM,
    OTHER,
    OUTPUT,
    POOL,
    label_of,
    operation_of,
    trace,
)


@dataclass
class ChannelGroup:
    """Channels that can only be removed together, and every layer that sees them.

    ``producers`` have them as outputs, ``consumers`` as inputs; ``norms`` and ``depthwise`` pass
    them on. ``blocked`` lists why they cannot be removed exactly.
    """

    producers: list[str] = field(default_factory=list)
    consumers: list[str] = field(default_factory=list)
    norms: list[str] = field(default_factory=list)
    depthwise: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)

    def absorb(self, other: ChannelGroup) -> None:
        """Take over everything ``other`` knows, each name once."""
        for mine, theirs in zip(self._lists(), other._lists(), strict=True):
            mine.extend(name for name in theirs if name not in mine)

    def _lists(self) -> tuple[list[str], ...]:
        return self.producers, self.consumers, self.norms, self.depthwise, self.blocked


@dataclass(eq=False)
class Node:
    """One operation. ``module`` is the layer's fully qualified name, if it is one.

    ``pooled``: its plane was reduced to one pixel. ``flat``: channels are the last axis.
    """

    operation: str
    label: str
    module: str | None
    inputs: list[Node]
    users: list[Node] = field(default_factory=list)
    pooled: bool = False
    flat: bool = False
    group: int | None = None


class ChannelGraph:
    """The operations of a model in order, and the channel groups that tie its layers.

    Two tensors are in one group if an addition, a product, a norm, a depthwise convolution or any
    other operation that works channel by channel links them.

    Parameters
    ----------
    model
        Must be traceable by ``torch.fx`` (no control flow that depends on data).
    """

    def __init__(self, model: nn.Module) -> None:
        modules = self._modules = dict(model.named_modules())
        self.nodes: list[Node] = []
        self._groups: list[ChannelGroup] = []
        self._parent: list[int] = []
        self._first: dict[str, Node] = {}
        made: dict[fx.Node, Node] = {}
        for traced in trace(model).nodes:
            inputs = [made[i] for i in traced.all_input_nodes]
            module = str(traced.target) if traced.op == "call_module" else None
            node = Node(operation_of(traced, modules), label_of(traced, modules), module, inputs)
            for source in inputs:
                source.users.append(node)
            made[traced] = node
            self.nodes.append(node)
            self._connect(node)
        self._block_moved_zeros()

    def node_of(self, layer: str) -> Node | None:
        """Return the first use of ``layer``, ``None`` if the forward pass never uses it."""
        return self._first.get(layer)

    def group_of(self, node: Node) -> ChannelGroup:
        """Return the channel group of the tensor that ``node`` makes."""
        assert node.group is not None
        return self._groups[self._root(node.group)]

    def groups(self) -> Iterator[ChannelGroup]:
        """Yield every channel group once."""
        yield from (g for i, g in enumerate(self._groups) if self._root(i) == i)

    def _connect(self, node: Node) -> None:
        """Give ``node`` its channel group, and tell the groups it reads about it."""
        tensors = [i for i in node.inputs if i.group is not None]
        node.pooled = node.operation == POOL or (bool(tensors) and all(i.pooled for i in tensors))
        node.flat = node.operation == FLATTEN or (bool(tensors) and tensors[0].flat)
        if node.operation in (INPUT, OUTPUT, OTHER):
            what = (
                f"the operation {node.label}"
                if node.operation == OTHER
                else f"the model's {node.operation}"
            )
            self._block(tensors, f"reaches {what}")
            self._start(node, ChannelGroup(blocked=[f"comes from {what}"]))
        elif node.operation == CONSTANT or not tensors:
            node.group = None
        elif node.operation in (LINEAR, CONV, GROUPED, DEPTHWISE):
            assert node.module is not None
            self._connect_layer(node, node.module, tensors[0])
        else:
            self._connect_elementwise(node, tensors)

    def _connect_layer(self, node: Node, name: str, source: Node) -> None:
        if node.operation == GROUPED:
            self._block([source], f"reaches the grouped convolution {name}")
            self._start(node, ChannelGroup(blocked=[f"comes from the grouped convolution {name}"]))
        elif node.operation == DEPTHWISE:
            node.group = source.group
            self.group_of(source).depthwise.append(name)
        else:
            if node.operation == LINEAR and not (
                source.flat or source.pooled or source.operation == INPUT
            ):
                self._block([source], f"is read by {name} along another axis")
            self.group_of(source).consumers.append(name)
            self._start(node, ChannelGroup(producers=[name]))
            node.flat = node.operation == LINEAR
        first = self._first.setdefault(name, node)
        if first is not node:
            self._union([first, node])
            self._union([first.inputs[0], source])

    def _connect_elementwise(self, node: Node, tensors: Sequence[Node]) -> None:
        self._union(tensors)
        node.group = tensors[0].group
        if node.operation == NORM and node.module is not None:
            self.group_of(node).norms.append(node.module)
            if not getattr(self._modules[node.module], "affine", False):
                self._block([node], f"passes {node.module}, which has no weight to set to zero")
        if node.operation == ADD and len(tensors) < 2:
            self._block([node], "has a constant added")

    def _block_moved_zeros(self) -> None:
        """Block channels that a sigmoid lifts from zero, except in a gate ``x * sigmoid(...)``."""
        for node in self.nodes:
            gates = all(
                user.operation == MUL and any(i.operation != MOVES_ZERO for i in user.inputs)
                for user in node.users
            )
            if node.operation == MOVES_ZERO and node.group is not None and not gates:
                self._block([node], f"reaches {node.label}, which does not keep zeros")

    def _start(self, node: Node, group: ChannelGroup) -> None:
        self._groups.append(group)
        node.group = len(self._parent)
        self._parent.append(node.group)

    def _root(self, index: int) -> int:
        while self._parent[index] != index:
            index = self._parent[index]
        return index

    def _union(self, nodes: Sequence[Node]) -> None:
        roots = sorted({self._root(n.group) for n in nodes if n.group is not None})
        for other in roots[1:]:
            self._groups[roots[0]].absorb(self._groups[other])
            self._parent[other] = roots[0]

    def _block(self, nodes: Sequence[Node], reason: str) -> None:
        for node in nodes:
            self.group_of(node).blocked.append(reason)
