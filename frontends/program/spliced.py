"""Operators taken apart where they stand, one of each kind; the others are not traced again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
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

from tvm_sparse.frontends.program.kinds import kind_of

Table = Mapping[Any, Callable[..., Any]]

aten = torch.ops.aten

_COPIES = {aten.lift_fresh_copy.default, aten.detach.default, aten.alias.default}
"""Operators that say how a tensor lies in memory, which is another question of a whole program."""

_WITHOUT_TENSORS = {
    *(aten.sym_size.int, aten.sym_numel.default, aten._assert_tensor_metadata.default),
    *(aten._assert_async.msg, aten._assert_async.default),
}
"""Operators that return no tensor, and none of whose results depends on an element of one."""

_PLACE = ("nn_module_stack", "source_fn_stack", "stack_trace", "from_node", "custom")
"""Where in a model a node of a program comes from: its ``meta``."""

_HERE = __name__.rpartition(".program.")[0]


def spliced(
    program: ExportedProgram, table: Table, composite: Collection[Any], kernels: Table
) -> ExportedProgram | None:
    """Return ``program`` with the operators in ``table`` taken apart; None of an unusual one.

    before: ``y = relu(hardtanh(conv2d(x, w)))`` --> after: ``y = relu(clamp(convolution(x, w)))``

    PyTorch traces a whole program for that, twice. With open extents an operator takes
    milliseconds each time. Most stay as they are, and layers repeat: attention of the same extents
    is traced once.

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
        kinds = {
            node: kind_of(node) for node in nodes if _may_be_taken_apart(node, table, composite)
        }
        firsts = {kind: node for node, kind in reversed(kinds.items())}
        taken = {kind for kind, node in firsts.items() if _is_taken_apart(node, table)}
        apart = {node: firsts[kind] for node, kind in kinds.items() if kind in taken}
        if not apart:
            return _rewritten(program, None)
        exchanged = exported_program._override_composite_implicit_decomp(kernels)
        with _ignore_backend_decomps(), tracing(TracingContext(mode)), exchanged:
            part = _Part(apart, {op: rule for op, rule in table.items() if op not in composite})
    return _rewritten(program, part) if part.is_plain else None


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


def _may_be_taken_apart(node: fx.Node, table: Table, composite: Collection[Any]) -> bool:
    """Whether ``node`` is an operator that is no primitive."""
    target = node.target
    if not isinstance(target, OpOverload) or not _tensors(node):
        return False
    if target in table or target in _COPIES:
        return True
    return target not in composite and target._can_decompose()


def _is_taken_apart(node: fx.Node, table: Table) -> bool:
    """Whether ``node``, which is no primitive, becomes other operators."""
    rule = table.get(node.target)
    if rule is None or not rule.__module__.startswith(_HERE):
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
    """Operators of a program that are taken apart, one of each kind, in a graph of their own."""

    def __init__(self, apart: Mapping[fx.Node, fx.Node], table: Table) -> None:
        """Trace them with values of the program as inputs.

        ``apart`` gives for each operator the one of its kind that is traced.
        """
        self.apart = apart
        traced = list(dict.fromkeys(apart.values()))
        inputs = list(dict.fromkeys(n for node in traced for n in node.all_input_nodes))

        def run(*values: Any) -> list[Any]:
            env, found = dict(zip(inputs, values, strict=True)), []
            for node in traced:
                args, kwargs = fx.map_arg((node.args, node.kwargs), env.__getitem__)
                with traceback.set_current_meta(node):
                    found.append(node.target(*args, **kwargs))  # type: ignore[operator]
            return found

        def thunked(*values: Any) -> Any:
            with maybe_enable_thunkify():
                return dispatch_functionalize(run, FunctionalTensorMode(export=True))(*values)

        with traceback.preserve_node_meta():
            make = make_fx(thunked, decomposition_table=dict(table), record_module_stack=True)
            self.graph = make(*map(_value, inputs)).graph
        self.graph.eliminate_dead_code(_is_for_itself)
        (results,) = self.graph.output_node().args
        self.results = dict(zip(traced, results, strict=True))  # type: ignore[arg-type]
        self.given = dict(zip(inputs, self.graph.find_nodes(op="placeholder"), strict=True))

    @property
    def is_plain(self) -> bool:
        """Whether its operators are pure, each for the sake of a result, and hold no tensor."""
        calls = [n for n in self.graph.nodes if n.op not in ("placeholder", "output")]
        return all(_is_plain(node) and node.users for node in calls)

    def operands(self, node: fx.Node) -> dict[fx.Node, fx.Node]:
        """Return which node of the program stands for each input where ``node`` does."""
        own = dict(zip(self.apart[node].all_input_nodes, node.all_input_nodes, strict=True))
        return {place: own.get(value, value) for value, place in self.given.items()}


def _rewritten(program: ExportedProgram, part: _Part | None) -> ExportedProgram:
    """Return a copy of ``program`` with what ``part`` has taken apart."""
    writer = _Writer()
    for node in program.graph.nodes:
        if part is not None and node in part.apart:
            writer.take_apart(node, part)
        else:
            writer.copy(node, writer.env)
    writer.graph.eliminate_dead_code(_is_for_itself)
    return _with_graph(program, writer.graph, writer.env)


class _Writer:
    """A new graph of nodes of two others: of a program, and of a part of it."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.env: dict[fx.Node, Any] = {}
        self.extents: dict[Any, fx.Node] = {}

    def copy(self, node: fx.Node, env: dict[fx.Node, Any]) -> None:
        """Write a node whose operands are written; a part of a former result is taken from it."""
        source = node.args[0] if node.args else None
        found = env.get(source) if isinstance(source, fx.Node) else None
        if isinstance(found, tuple | list):
            env[node] = found[node.args[1]]  # type: ignore[index]
            return
        made = self.graph.node_copy(node, env.__getitem__)
        if node.op == "placeholder":  # one may be called as a function of Python is
            made.name = made.target = node.name
        if made.target is aten.view.default:  # what it takes may lie in memory otherwise now
            made.target = aten.reshape.default
        env[node] = made
        if isinstance(extent := made.meta.get("val"), torch.SymInt):
            self.extents.setdefault(extent.node.expr, made)

    def take_apart(self, node: fx.Node, part: _Part) -> None:
        """Write what ``node`` becomes.

        Raises
        ------
        LookupError
            It reads what stands for another operator alone.
        """
        first, given = part.apart[node], part.operands(node)
        env = {place: self.env[value] for place, value in given.items() if value in self.env}
        waiting = [n for n in pytree.tree_leaves(part.results[first]) if isinstance(n, fx.Node)]
        new: set[fx.Node] = set()
        while waiting:
            found = waiting.pop()
            if found in new or self._is_written(found, env):
                continue
            if found.op == "placeholder":
                raise LookupError(f"{node}: {found}")
            new.add(found)
            waiting += found.all_input_nodes
        for found in sorted(new):
            if not self._is_written(found, env):
                self.copy(found, env)
                if first is not node and isinstance(made := env[found], fx.Node):
                    made.meta.update({key: node.meta[key] for key in _PLACE if key in node.meta})
        self.env[node] = fx.map_arg(part.results[first], env.__getitem__)

    def _is_written(self, node: fx.Node, env: dict[fx.Node, Any]) -> bool:
        """Whether ``env`` has a node, or an extent that is computed is what it stands for."""
        extent = node.meta.get("val")
        if isinstance(extent, torch.SymInt) and extent.node.expr in self.extents:
            env[node] = self.extents[extent.node.expr]
        return node in env


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
