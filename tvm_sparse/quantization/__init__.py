"""``ts.quantize``: a trained model in bytes, by torchao's export flow (PT2E)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx, nn

from tvm_sparse.base.batches import several
from tvm_sparse.base.extras import require
from tvm_sparse.base.interrupts import whole_imports
from tvm_sparse.base.words import aside, said
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.alone import ALONE
from tvm_sparse.frontends.example_inputs import Examples, arguments, bound
from tvm_sparse.frontends.modules.dynamic_shapes import checked
from tvm_sparse.frontends.modules.effective import inference_copy
from tvm_sparse.frontends.modules.plain_module import plain_module
from tvm_sparse.frontends.modules.quantized_layers import traced_in
from tvm_sparse.frontends.modules.torch import exported, names_of
from tvm_sparse.frontends.program.asked_conditions import CONDITIONS
from tvm_sparse.frontends.program.exported import OPEN_EXTENTS
from tvm_sparse.frontends.program.left_float import keep_left_float
from tvm_sparse.frontends.quiet import quiet
from tvm_sparse.quantization.converting import converted
from tvm_sparse.quantization.losses import losses
from tvm_sparse.quantization.modes import WHERE, check_options
from tvm_sparse.quantization.named_padding import number_padding
from tvm_sparse.quantization.quantizer import x86_quantizer
from tvm_sparse.quantization.rows import quantize_rows
from tvm_sparse.quantization.tracing import traced

CALIBRATION = "calibration"

_FROZEN = "_frozen_param"

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


@whole_imports()
def quantize(
    model: nn.Module,
    batches: Iterable[Examples],
    *,
    activations: str = "static",
    ignore: Sequence[str] = (),
    tolerance: float | None = None,
    dynamic_shapes: Any = None,
) -> torch.export.ExportedProgram:
    """Return ``model`` with quantized layers, for :func:`tvm_sparse.compile`.

    Activations become unsigned bytes with a scale and a zero point a tensor, from the ranges that
    the calibration data show. Weights become signed bytes with a scale a feature and without a zero
    point, so pruned zeros stay zeros. Masks are applied and batch norm is folded before. What is no
    convolution, linear layer or operator between them stays float.

    With ``activations="dynamic"`` linear layers find the scale of each row of their input when they
    run: no calibration data decide it, and a token with large values takes no precision from the
    others. That suits transformers. Convolutions stay static.

    Parameters
    ----------
    model
        A trained, perhaps pruned, model. It is not changed.
    batches
        Inputs that are like those in use: each a tensor, a sequence of positional arguments or a
        mapping of keyword ones. The program takes the shapes of the first, but for open extents.
        Some hundred images are usual.
    activations
        ``"static"``, or ``"dynamic"`` for the inputs of linear layers.
    ignore
        Fully qualified names of modules that stay float.
    tolerance
        Leave layers float whose output would change by more than this fraction if their input and
        weight were bytes, and all before them float. The change is the root of mean squares on the
        calibration data. ``program.graph_module.meta[LEFT_FLOAT]`` has their names and losses,
        which files of the program keep, and reports show.
    dynamic_shapes
        Which extents stay open, as :func:`torch.export.export` takes it. The first batch has at
        least two of each.

    Raises
    ------
    InputError
        torchao is not installed, there is no batch, or they differ in form. A name or a mode is
        unknown, or the tolerance not above zero. ``dynamic_shapes`` do not fit, or the model cannot
        be traced.
    """
    require("quantize", WHERE)
    with quiet():  # it tells of extensions that it cannot load, which nothing here needs
        import torchao  # noqa: F401
    check_options(activations, tolerance)
    calls = [arguments(batch) for batch in several(CALIBRATION, batches)]
    model = plain_module(model)
    given = [bound(model, *call) for call in calls]
    dynamic_shapes = checked(dynamic_shapes, model, given[0])
    names = {name for name, _ in model.named_modules()}
    if unknown := sorted(set(ignore) - names):
        raise InputError(WHERE, f"has no module '{unknown[0]}'", "names of model.named_modules()")
    with ALONE, quiet(), torch.no_grad():
        dynamic = activations == "dynamic"
        whole = inference_copy(model)
        plain, left = traced(WHERE, whole, calls[0], dynamic_shapes), dict[str, float]()
        asked = plain.meta[CONDITIONS]
        try:
            prepared = _prepared(plain, calls, ignore, dynamic=dynamic)
            if tolerance is not None:
                found = losses(prepared, calls, dynamic=dynamic)
                free = names - set(ignore)
                left = {n: loss for n, loss in found.items() if loss > tolerance and n in free}
            if left:
                ignore = [*ignore, *left]
                plain = traced(WHERE, whole, calls[0], dynamic_shapes)
                prepared = _prepared(plain, calls, ignore, dynamic=dynamic)
            result = converted(prepared)
        except InputError:
            raise
        except Exception as error:  # of torchao, whose quantizer refuses some forms of a network
            todo = "give each use of a module its own, or quantize with another tool"
            reason = f"torchao refuses the model{aside(said(error))}"
            raise InputError(WHERE, reason, todo=todo) from error
        _name_weights(result)
        if dynamic:
            quantize_rows(result, ignore)
        program = exported(result, calls[0], dynamic_shapes)
        program.graph_module.meta[OPEN_EXTENTS] = names_of(whole, calls[0], dynamic_shapes)
        program.graph_module.meta[CONDITIONS] = asked
        keep_left_float(program, left, tolerance)
        return program


def _prepared(
    plain: fx.GraphModule, calls: Sequence[Call], ignore: Sequence[str], *, dynamic: bool
) -> fx.GraphModule:
    """Return ``plain`` with torchao's observers, which have seen ``calls``."""
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    number_padding(plain.graph)
    plain.recompile()
    quantizer = x86_quantizer()
    for name in ignore:
        quantizer.set_module_name_qconfig(name, None)
    if dynamic:
        quantizer.set_function_type_qconfig(torch.nn.functional.linear, None)
    prepared = prepare_pt2e(plain, quantizer)
    for call in calls:
        _observe(prepared, call)
    return prepared


def _observe(prepared: fx.GraphModule, call: Call) -> None:
    args, kwargs = call
    try:
        prepared(*args, **kwargs)
    except Exception as error:  # of the user's model
        reason = f"the model does not run on a batch as on the first one{aside(said(error))}"
        todo = "open the axes that differ with dynamic_shapes, and pass the same arguments"
        raise InputError(CALIBRATION, reason, "batches of one form", todo) from error


def _name_weights(program: torch.fx.GraphModule) -> None:
    """Give quantized weights the names of the float ones that they replace."""
    for node in list(program.graph.nodes):
        if node.op != "get_attr" or not str(node.target).startswith(_FROZEN):
            continue
        reader = next((user for meant in node.users for user in meant.users), None)
        path = traced_in(reader) if reader else ""
        module = dict(program.named_modules()).get(path) if path else None
        name = f"{path}.weight"
        if not isinstance(getattr(module, "weight", None), nn.Parameter):
            continue
        if any(n.op == "get_attr" and n.target == name and n.users for n in program.graph.nodes):
            continue  # something else, an embedding perhaps, reads the floats
        assert module is not None
        frozen = getattr(program, node.target)
        del module.weight
        module.register_buffer("weight", frozen)
        delattr(program, node.target)
        node.target = name
    program.recompile()
