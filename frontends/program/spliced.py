"""Operators taken apart where they stand, all in one trace; the others are not traced again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import TracingContext, tracing
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
from torch.export import ExportedProgram, exported_program
from torch.export._trace import _ignore_backend_decomps
from torch.export.graph_signature import ConstantArgument, ExportGraphSignature
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx, maybe_enable_thunkify
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

Table = Mapping[Any, Callable[..., Any]]

aten = torch.ops.aten

_COPIES = {aten.lift_fresh_copy.default, aten.detach.default, aten.alias.default}
"""Operators that say how a tensor lies in memory, which is another question of a whole program."""

_WITHOUT_TENSORS = {
    *(aten.sym_size.int, aten.sym_numel.default, aten._assert_tensor_metadata.default),
    *(aten._assert_async.msg, aten._assert_async.default),
}
"""Operators that return no tensor, and none of whose results depends on an element of one."""

_HERE = __name__.rpartition(".program.")[0]


def spliced(
    program: ExportedProgram, table: Table, composite: Collection[Any], kernels: Table
) -> ExportedProgram | None:
    """Return ``program`` with the operators in ``table`` taken apart; None of an unusual one.

    before: ``y = relu(hardtanh(conv2d(x, w)))`` --> after: ``y = relu(clamp(convolution(x, w)))``

    PyTorch traces a whole program for that, twice. With open extents an operator takes
    milliseconds each time, and most stay as they are.

    Parameters
    ----------
    program
        A program in which nothing is written in place and no extent follows from a value.
    table
        What the operators are taken apart with.
    composite
        Operators that PyTorch computes from others.
    kernels
        What some of them are computed with instead.
    """
    nodes = list(program.graph.nodes)
    modes = {value.fake_mode for node in nodes for value in _tensors(node)}
    if len(modes) != 1 or not all(map(_is_plain, nodes)) or _writes(program):
        return None
    if not all(map(_is_own_kind, (*program.state_dict.values(), *program.constants.values()))):
        return None
    (mode,) = modes
    with mode, torch.no_grad(), enable_python_dispatcher():
        apart = [node for node in nodes if _is_taken_apart(node, table, composite)]
        if not apart:
            return _rewritten(program, {}, {})
        exchanged = exported_program._override_composite_implicit_decomp(kernels)
        with _ignore_backend_decomps(), tracing(TracingContext(mode)), exchanged:
            part = _Part(apart, {op: rule for op, rule in table.items() if op not in composite})
    return _rewritten(program, part.given, part.results) if part.is_plain else None


def _tensors(node: fx.Node) -> list[FakeTensor]:
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return [value for value in leaves if isinstance(value, FakeTensor)]


def _is_plain(node: fx.Node) -> bool:
    """Whether ``node`` is a pure operator on tensors, numbers and extents."""
    if node.op != "call_function":
        return node.op in ("placeholder", "output")
    if "val" not in node.meta or node.meta.get("unbacked_bindings"):
        return False
    if isinstance(node.target, OpOverload):
        known = bool(_tensors(node)) or node.target in _WITHOUT_TENSORS
        return known and not node.target._schema.is_mutable
    return not isinstance(node.target, torch._ops.HigherOrderOperator)


def _is_own_kind(value: Any) -> bool:
    """Whether a weight is a tensor of PyTorch's own type: others are made of several tensors."""
    return type(value) in (torch.Tensor, torch.nn.Parameter)


def _writes(program: ExportedProgram) -> bool:
    signature = program.graph_signature
    return bool(signature.buffers_to_mutate or signature.user_inputs_to_mutate)


def _is_taken_apart(node: fx.Node, table: Table, composite: Collection[Any]) -> bool:
    """Whether ``node`` may become other operators."""
    target = node.target
    if not isinstance(target, OpOverload) or not _tensors(node):
        return False
    rule = table.get(target)
    if rule is None:
        return target in _COPIES or (target not in composite and target._can_decompose())
    if not rule.__module__.startswith(_HERE):
        return True
    args, kwargs = fx.map_arg((node.args, node.kwargs), _value)
    try:
        with _Refused():
            return rule(*args, **kwargs) is not NotImplemented
    except _Computed:  # a rule says so before it computes anything
        return True


class _Computed(Exception):
    """A tensor would be computed."""


class _Refused(TorchDispatchMode):
    """While it is entered, nothing that returns a tensor is computed."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Answer a question on a tensor."""
        if any(isinstance(r.type, torch.TensorType) for r in func._schema.returns):
            raise _Computed
        return func(*args, **(kwargs or {}))


def _value(node: fx.Node) -> Any:
    return node.meta["val"]


def _is_for_itself(node: fx.Node) -> bool:
    """Whether ``node`` does something though nothing reads its result: an assertion, say."""
    silent = isinstance(node.target, OpOverload) and not node.target._schema.returns
    return silent or node.is_impure()


class _Part:
    """The operators ``apart`` of a program in a graph of their own, taken apart."""

    def __init__(self, apart: Sequence[fx.Node], table: Table) -> None:
        """Trace them with the values of a program as inputs."""
        inside = set(apart)
        reads = dict.fromkeys(n for node in apart for n in node.all_input_nodes)
        self.inputs = [node for node in reads if node not in inside]

        def run(*values: Any) -> list[Any]:
            env = dict(zip(self.inputs, values, strict=True))
            for node in apart:
                args, kwargs = fx.map_arg((node.args, node.kwargs), env.__getitem__)
                with traceback.set_current_meta(node):
                    env[node] = node.target(*args, **kwargs)  # type: ignore[operator]
            return [env[node] for node in apart]

        def thunked(*values: Any) -> Any:
            with maybe_enable_thunkify():
                return dispatch_functionalize(run, FunctionalTensorMode(export=True))(*values)

        with traceback.preserve_node_meta():
            traced = make_fx(thunked, decomposition_table=dict(table), record_module_stack=True)
            self.graph = traced(*map(_value, self.inputs)).graph
        self.graph.eliminate_dead_code(_is_for_itself)
        (results,) = self.graph.output_node().args
        self.results = dict(zip(apart, results, strict=True))  # type: ignore[arg-type]

    @property
    def is_plain(self) -> bool:
        """Whether its operators are pure, each for the sake of a result, and hold no tensor."""
        calls = [n for n in self.graph.nodes if n.op not in ("placeholder", "output")]
        return all(_is_plain(node) and node.users for node in calls)

    @property
    def given(self) -> dict[fx.Node, fx.Node]:
        """The node of the program that each input is."""
        return dict(zip(self.graph.find_nodes(op="placeholder"), self.inputs, strict=True))


def _rewritten(
    program: ExportedProgram, inputs: Mapping[fx.Node, fx.Node], results: Mapping[fx.Node, Any]
) -> ExportedProgram:
    """Return a copy of ``program`` in which nodes are what ``results`` says, made of ``inputs``."""
    writer = _Writer(inputs)
    for node in program.graph.nodes:
        if node in results:
            writer.env[node] = fx.map_arg(results[node], writer.written)
        else:
            writer.copy(node)
    writer.graph.eliminate_dead_code(_is_for_itself)
    return _with_graph(program, writer.graph, writer.env)


class _Writer:
    """A new graph of nodes of two others: of a program, and of a part, which reads ``inputs``."""

    def __init__(self, inputs: Mapping[fx.Node, fx.Node]) -> None:
        self.graph, self.inputs = fx.Graph(), inputs
        self.env: dict[fx.Node, Any] = {}
        self.extents: dict[Any, fx.Node] = {}

    def copy(self, node: fx.Node) -> None:
        """Write a node whose operands are written; a part of a former result is taken from it."""
        source = node.args[0] if node.args else None
        found = self.env.get(source) if isinstance(source, fx.Node) else None
        if isinstance(found, tuple | list):
            self.env[node] = found[node.args[1]]  # type: ignore[index]
            return
        made = self.graph.node_copy(node, self.env.__getitem__)
        if node.op == "placeholder":  # one may be called as a function of Python is
            made.name = made.target = node.name
        if made.target is aten.view.default:  # what it takes may lie in memory otherwise now
            made.target = aten.reshape.default
        self.env[node] = made
        if isinstance(extent := made.meta.get("val"), torch.SymInt):
            self.extents.setdefault(extent.node.expr, made)

    def written(self, node: fx.Node) -> Any:
        """Return what was written for a node of the part, and before it what it is made of."""
        waiting, new = [node], set()
        while waiting:
            found = waiting.pop()
            if found not in self.env and found not in new:
                new.add(found)
                waiting += found.all_input_nodes
        for found in sorted(new):
            self._write(found)
        return self.env[node]

    def _write(self, node: fx.Node) -> None:
        """Write a node of the part, unless it is an input or an extent that was written."""
        extent = node.meta.get("val")
        same = isinstance(extent, torch.SymInt) and self.extents.get(extent.node.expr)
        if node in self.inputs:
            self.env[node] = self.env[self.inputs[node]]
        elif same:
            self.env[node] = same
        else:
            self.copy(node)


def _with_graph(
    program: ExportedProgram, graph: fx.Graph, env: Mapping[fx.Node, Any]
) -> ExportedProgram:
    """Return ``program`` with ``graph``, whose nodes are those of ``env``."""
    former = pytree.tree_leaves(program.graph.output_node().args)
    names = {n.name: env[n].name for n in former if isinstance(n, fx.Node)}
    signature = program.graph_signature
    outputs = [
        spec
        if isinstance(spec.arg, ConstantArgument)
        else replace(spec, arg=replace(spec.arg, name=names[spec.arg.name]))
        for spec in signature.output_specs
    ]
    result = copy.copy(program)
    result._graph_module = fx.GraphModule(program.graph_module, graph)
    result.graph_module.meta.update(program.graph_module.meta)
    result._graph_signature = ExportGraphSignature([*signature.input_specs], outputs)
    result._state_dict, result._constants = {**program.state_dict}, {**program.constants}
    result._range_constraints = {**program.range_constraints}
    return result
