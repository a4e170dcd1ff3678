"""Relax modules of TVM's own front ends, as TVM users have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.frontends.model import Model, build
from tvm_sparse.passes.finish.lift_weights import SCALAR_BYTES, Lifter
from tvm_sparse.passes.graph.rewrite import name_of

WHERE = "Relax module"


def from_relax(module: tvm.IRModule) -> Model:
    """Import the function ``main`` of a Relax module of operators.

    Weights are constants, or parameters behind the ``num_input`` first ones whose values the
    attribute ``params`` has (TVM's front ends write both with ``keep_params_as_input=True``). They
    are called as the parameters are; constants by the names in their spans, or by number.

    Raises
    ------
    InputError
        There is no ``main``, or a weight has no value.
    UnsupportedError
        It calls what is no operator of Relax: kernels, other functions, packed ones.
    """
    names = {variable.name_hint: function for variable, function in module.functions.items()}
    main = names.get("main")
    if not isinstance(main, relax.Function):
        raise InputError(WHERE, f"has the functions {sorted(names)}", "a Relax function 'main'")
    for callee in _others(main):
        raise UnsupportedError(
            f"{WHERE}, main",
            f"calls {callee}",
            "operators of Relax alone",
            "compile it before LegalizeOps and fusion",
        )
    weights = _parameters(main)
    lifter = Lifter(_naming(main, weights))
    lifted = lifter.visit_expr(main)
    params = [*lifted.params, *lifter.params]
    count = len(params) - len(weights)
    whole = relax.Function(params, lifted.body, lifted.ret_ty, lifted.is_pure, lifted.attrs)
    whole = whole.with_attr("num_input", count)
    found = relax.transform.Normalize()(tvm.IRModule({"main": whole}, attrs=module.attrs))
    return build(found, weights)


def _others(main: relax.Function) -> Iterator[str]:
    """Yield what is called besides operators of Relax that have a meaning of their own."""
    found: list[str] = []

    def look(expr: Any) -> None:
        if not isinstance(expr, relax.Call):
            return
        callee = expr.op
        name = callee.name if isinstance(callee, tvm.ir.Op) else ""
        if not name:
            found.append(f"'{_named(callee)}'")
        elif "call_tir" in name or "packed" in name or name.startswith("relax.vm."):
            inner = _named(expr.args[0])
            found.append(f"'{inner}' by {name}")

    relax.analysis.post_order_visit(main.body, look)
    yield from found


def _named(callee: Any) -> str:
    """Return what a function, or a packed one, is called."""
    names = (getattr(callee, name, None) for name in ("name_hint", "global_symbol"))
    return next(filter(None, names), str(callee))


def _parameters(main: relax.Function) -> dict[str, tuple[str, np.ndarray]]:
    """Return the weights that are parameters already: name and value by the parameter's name."""
    attrs = main.attrs or {}
    count = int(attrs["num_input"]) if "num_input" in attrs else len(main.params)
    variables = list(main.params)[count:]
    values = list(attrs["params"]) if "params" in attrs else []
    if len(values) != len(variables):
        raise InputError(
            f"{WHERE}, main",
            f"has {len(variables)} parameters behind its {count} inputs, and {len(values)} values",
            "as many of both",
            "bind the weights: relax.transform.BindParams('main', params)(module)",
        )
    pairs = zip(variables, values, strict=True)
    return {var.name: (var.name, value.numpy()) for var, value in pairs}


def _naming(
    main: relax.Function, weights: dict[str, tuple[str, np.ndarray]]
) -> Callable[[Any], str | None]:
    """Return what names the parameters of large constants; their values land in ``weights``."""
    taken, given = {param.name for param in main.params}, len(weights)

    def named(const: Any) -> str | None:
        value = array_of(const)
        if value.nbytes <= SCALAR_BYTES:
            return None
        name = name_of(const) or f"constant_{len(weights) - given}"
        while name in taken:
            name += "_"
        taken.add(name)
        weights[name] = name, value
        return name

    return named
