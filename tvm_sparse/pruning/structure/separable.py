"""Depthwise separable blocks: PW-conv1, depthwise convolution, PW-conv2, and what ties them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import nn

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.pruning.layers import CONV, DEPTHWISE
from tvm_sparse.pruning.structure.channels import ChannelGraph, ChannelGroup, Node
from tvm_sparse.pruning.structure.operations import KEEPS_ZERO, MOVES_ZERO, MUL, NORM, POOL

_INSIDE = (NORM, KEEPS_ZERO, MOVES_ZERO, MUL)


@dataclass(frozen=True)
class SeparableBlock:
    """One block by the names of its layers; ``note`` says why a part is missing.

    ``expand`` is PW-conv1 and ``project`` PW-conv2 in DEPrune's words; ``squeeze_excite`` tells
    whether a channel gate lies between depthwise convolution and PW-conv2.
    """

    expand: str | None
    depthwise: str
    project: str | None
    squeeze_excite: bool
    note: str = ""


@dataclass(frozen=True)
class SeparableNetwork:
    """The blocks of a network in order, and which filters of their PW-conv2 can be removed.

    Each group of ``tied`` has one PW-conv2 or several whose outputs are added up (these lose the
    same filters). ``skipped`` gives the reason for every other PW-conv2.
    """

    blocks: tuple[SeparableBlock, ...]
    tied: tuple[ChannelGroup, ...]
    skipped: Mapping[str, str]


def find_separable(model: nn.Module) -> SeparableNetwork:
    """Find the depthwise separable blocks of ``model``.

    Works on any network that ``torch.fx`` can trace: MobileNet, EfficientNet, MNASNet (torchvision
    or timm), ConvNeXt-like blocks (without PW-conv2), a user's own.

    Raises
    ------
    UnsupportedError
        If the network has no depthwise convolution, or cannot be traced.
    """
    graph = ChannelGraph(model)
    modules = dict(model.named_modules())
    nodes = _unique(n for n in graph.nodes if n.operation == DEPTHWISE)
    if not nodes:
        raise UnsupportedError(
            type(model).__name__,
            "has no depthwise convolution",
            "depthwise separable blocks (groups == in_channels == out_channels)",
            "use balanced, block, joint or filter pruning",
        )
    blocks = tuple(_block_around(node, modules) for node in nodes)
    projects = [b.project for b in blocks if b.project is not None]
    tied: list[ChannelGroup] = []
    skipped: dict[str, str] = {}
    for name in dict.fromkeys(projects):
        node = graph.node_of(name)
        assert node is not None
        group = graph.group_of(node)
        reason = _reason(group, projects)
        if reason:
            skipped[name] = reason
        elif group not in tied:
            tied.append(group)
    return SeparableNetwork(blocks, tuple(tied), skipped)


def _reason(group: ChannelGroup, projects: Iterable[str]) -> str:
    """Return why the filters of ``group`` must stay, ``""`` if they can go."""
    if group.depthwise:
        return f"its outputs are the channels of the depthwise {group.depthwise[0]}"
    foreign = [name for name in group.producers if name not in projects]
    if foreign:
        return f"its outputs are added to those of {foreign[0]}, which is no PW-conv2"
    return f"its output {group.blocked[0]}" if group.blocked else ""


def _block_around(node: Node, modules: Mapping[str, nn.Module]) -> SeparableBlock:
    assert node.module is not None
    expand = _walk_back(node.inputs[0])
    reached, gated = _walk_on(node)
    projects = [n for n in reached if _is_pointwise(n, modules)]
    note = ""
    if len(projects) != 1:
        ends = ", ".join(dict.fromkeys(n.module or n.label for n in reached)) or "nothing"
        note = f"no PW-conv2: the depthwise output reaches {ends}"
    return SeparableBlock(
        expand.module if _is_pointwise(expand, modules) else None,
        node.module,
        projects[0].module if len(projects) == 1 else None,
        gated,
        note,
    )


def _walk_back(node: Node) -> Node:
    """Return the operation before norms and activations."""
    while node.operation in (NORM, KEEPS_ZERO, MOVES_ZERO):
        node = node.inputs[0]
    return node


def _walk_on(start: Node) -> tuple[list[Node], bool]:
    """Return the operations that end the block after ``start``, and whether a gate lies inside.

    The gate's own branch starts with a pooling and is not followed; its product is.
    """
    ends: list[Node] = []
    seen: set[Node] = set()
    pending, gated = list(start.users), False
    while pending:
        node = pending.pop(0)
        if node in seen:
            continue
        seen.add(node)
        if node.operation == POOL and any(u.operation != "flatten" for u in node.users):
            continue
        if node.operation == MUL and any(source.pooled for source in node.inputs):
            gated = True
        if node.operation in _INSIDE:
            pending.extend(node.users)
        else:
            ends.append(node)
    return ends, gated


def _is_pointwise(node: Node, modules: Mapping[str, nn.Module]) -> bool:
    if node.operation != CONV or node.module is None:
        return False
    module = modules[node.module]
    return isinstance(module, nn.Conv2d) and set(module.kernel_size) == {1}


def _unique(nodes: Iterable[Node]) -> list[Node]:
    return list({node.module: node for node in nodes}.values())
