"""Assertions that a tensor of one element is true: exported as arithmetic on a number."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument

from tvm_sparse.frontends.converters.corrected import layer_of

aten = torch.ops.aten

_COMPARISONS = (operator.ge, operator.le, operator.gt, operator.lt, operator.eq, operator.ne)


def assert_tensors(program: torch.export.ExportedProgram) -> None:
    """Let ``program``, which is ours, assert tensors whose truth it asserts as a number.

    before: ``n = sym_ite(item(t), 1, 0); _assert_scalar(n >= 0); _assert_scalar(n == 1)``
    after:  ``_assert_async(t)``

    ``torch._check_tensor_all`` is exported so, with which transformers' models of images and text
    compare how many tokens stand for images with the images.
    """
    asserted: set[fx.Node] = set()
    found = False
    for node in list(program.graph.nodes):
        if node.target is not aten._assert_scalar.default:
            continue
        tensor, when_false, when_true = _outcomes(node.args[0])
        if tensor is None or not when_true:
            continue
        if not when_false and tensor not in asserted:
            asserted.add(tensor)
            with program.graph.inserting_before(node):
                message = f"{layer_of(tensor)} asserts what is not so"
                program.graph.call_function(aten._assert_async.msg, (tensor, message))
        program.graph.erase_node(node)
        found = True
    if found:
        program.graph.eliminate_dead_code()


def asserted_last(program: torch.export.ExportedProgram) -> list[str]:
    """Let ``program``, which is ours, return what it asserts, behind its results.

    before: ``_assert_async(t, text); return y`` --> after: ``return y, t``, and the texts

    So a program that asserts something is as pure as any other, until
    :class:`~tvm_sparse.passes.finish.raise_assertions.RaiseAssertions` asserts these results.
    """
    found: list[str] = []
    output = program.graph.output_node()
    for node in list(program.graph.nodes):
        if node.target not in (aten._assert_async.msg, aten._assert_async.default):
            continue
        condition, *text = node.args
        with program.graph.inserting_before(output):
            truth = program.graph.call_function(
                aten._to_copy.default, (condition,), {"dtype": torch.bool}
            )
            whole = program.graph.call_function(aten.reshape.default, (truth, []))
        value = condition.meta["val"]
        truth.meta = {**condition.meta, "val": value.to(torch.bool)}
        whole.meta = {**condition.meta, "val": value.to(torch.bool).reshape([])}
        output.args = ((*output.args[0], whole),)
        spec = OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(whole.name), None)
        program.graph_signature.output_specs.append(spec)
        program.graph.erase_node(node)
        found.append(str(text[0]) if text else f"{layer_of(condition)} asserts what is not so")
    return found


def _outcomes(condition: Any) -> tuple[fx.Node | None, bool, bool]:
    """Return the tensor that ``condition`` is about, and what follows from it, false and true."""
    nothing = None, False, False
    if not isinstance(condition, fx.Node) or condition.target not in _COMPARISONS:
        return nothing
    compare: Any = condition.target
    number, other = condition.args
    if not isinstance(number, fx.Node) or number.target is not torch.sym_ite:
        return nothing
    item, *values = number.args
    if not isinstance(item, fx.Node) or not isinstance(other, int):
        return nothing
    if item.target is not aten._local_scalar_dense.default:
        return nothing
    when_true, when_false = (bool(compare(value, other)) for value in values)
    (tensor,) = item.all_input_nodes
    return tensor, when_false, when_true
