"""The device that a graph lies on, and the way between it and the host, where it is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import tvm
from torch import fx, nn
from torch.fx.node import map_aggregate

from tvm_sparse.base.targets import parse_target
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse_runtime.engine import DEVICE_TYPES

HOST = torch.device("cpu")

_KNOWN = " or ".join(f"'{name}'" for name in DEVICE_TYPES)

_AUTOCAST = torch.amp.autocast_mode._enter_autocast


def home_of(tensors: Sequence[torch.Tensor]) -> torch.device:
    """Return where a graph with these arguments lies; numbers on the host lie anywhere."""
    places = [tensor.device for tensor in tensors if tensor.dim()]
    return next(iter(places or [tensor.device for tensor in tensors]), HOST)


def refusal(
    graph: fx.Graph, tensors: Sequence[torch.Tensor], home: torch.device, target: str | None
) -> str:
    """Return why a graph cannot run where it lies, empty if it can.

    Parameters
    ----------
    graph, tensors
        What Dynamo traced, and its arguments.
    home
        What :func:`home_of` says of them.
    target
        What the user asked for, if anything.

    Raises
    ------
    InputError
        This machine has no device for ``target``.
    """
    kind = parse_target(target or "cpu").target.get_target_device_type()
    if not tvm.runtime.Device(kind, 0).exist:
        expected = "a target that runs on this machine"
        raise InputError("option 'target'", f"is '{target}'", expected, "leave it out")
    return _unknown(home) or _apart(graph, tensors, home) or _unlike(graph, home, target, kind)


def _unknown(home: torch.device) -> str:
    if home.type not in DEVICE_TYPES:
        return f"its tensors are on '{home}', and programs run on {_KNOWN}"
    return f"its tensors are on '{home}', and programs run on '{home.type}:0'" if home.index else ""


def _apart(graph: fx.Graph, tensors: Sequence[torch.Tensor], home: torch.device) -> str:
    given = [tensor for tensor in tensors if tensor.dim() or tensor.device != HOST]
    other = next((t.device for t in (*given, *_results(graph)) if t.device != home), home)
    return "" if other == home else f"it has tensors on '{home}' and on '{other}'"


def _unlike(graph: fx.Graph, home: torch.device, target: str | None, kind: int) -> str:
    """Say where code for ``target``, of that kind of device, is not what a device needs."""
    if home == HOST:
        return ""
    if target is not None and kind != DEVICE_TYPES[home.type]:
        return f"its tensors are on '{home}', and the option 'target' is '{target}'"
    around = torch.is_autocast_enabled(home.type)
    if around or graph.find_nodes(op="call_function", target=_AUTOCAST):
        return f"it has autocast on '{home.type}' (convert the model instead: model.half())"
    return ""


def on_host(value: Any) -> Any:
    """Return an argument of a graph: itself where it lies on the host, else a copy there."""
    if not isinstance(value, torch.Tensor) or value.device == HOST:
        return value
    copied = value.detach().cpu()
    return nn.Parameter(copied, requires_grad=False) if isinstance(value, nn.Parameter) else copied


def move_to_host(graph: fx.Graph) -> None:
    """Let operators of ``graph`` that put tensors on a device put them on the host."""
    for node in graph.find_nodes(op="call_method", target="cuda"):
        node.target, node.args, node.kwargs = "cpu", node.args[:1], {}
    for node in graph.find_nodes(op="call_method", target="to"):
        node.args = tuple(HOST if isinstance(arg, str) else arg for arg in node.args)
    _replace_devices(graph, HOST)


def move_from_host(module: fx.GraphModule, home: torch.device) -> None:
    """Let what PyTorch runs of a graph that was traced on the host run on ``home``.

    Raises
    ------
    UnsupportedError
        An operator exists on the host only.
    """
    for node in module.graph.nodes:
        if node.op == "call_function" and not _exists(node.target, home):
            raise UnsupportedError("graph", f"'{node.target}' does not exist on '{home.type}'")
    _replace_devices(module.graph, home)
    module.recompile()
    module.to(home)


def _results(graph: fx.Graph) -> list[torch.Tensor]:
    """Return what Dynamo knows of the tensors that ``graph`` returns."""
    values = [node.meta.get("example_value") for node in graph.output_node().all_input_nodes]
    return [value for value in values if isinstance(value, torch.Tensor)]


def _exists(function: Any, home: torch.device) -> bool:
    """Whether a function of a traced graph runs on ``home``."""
    if isinstance(function, torch._ops.HigherOrderOperator):
        return False  # its graphs were traced on the host
    if not isinstance(function, torch._ops.OpOverload):
        return True  # a part of what an operator returns
    key = torch._C._dispatch_key_for_device(home.type)
    return torch._C._dispatch_has_computed_kernel_for_dispatch_key(function.name(), key)


def _replace_devices(graph: fx.Graph, device: torch.device) -> None:
    """Name ``device`` where operators of ``graph`` name one."""
    for node in graph.nodes:
        node.args, node.kwargs = map_aggregate(
            (node.args, node.kwargs), lambda a: device if isinstance(a, torch.device) else a
        )
        if node.kwargs.get("device") is not None:
            node.kwargs = {**node.kwargs, "device": device}
