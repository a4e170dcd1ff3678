"""Packed weights leave the code: constants become parameters behind the inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_sparse.base.memory import array_of, owned
from tvm_sparse.passes.graph.rewrite import name_of

SCALAR_BYTES = 16
"""Smaller constants stay in the code."""

NUMBERS = "numbers"
"""The name of constants that never do: numbers in which calls of one function differ."""


@mutator
class Lifter(PyExprMutator):
    """Makes parameters of constants, the same one each time.

    Parameters
    ----------
    named
        Gives the name of a constant's parameter when the constant is met first, or None: it stays.
    mod
        The module of the function that is visited.
    """

    def __init__(self, named: Callable[[Any], str | None], mod: Any = None) -> None:
        super().__init__(mod)
        self.named = named
        self.params: list[relax.Var] = []
        self.seen: dict[Any, relax.Var] = {}

    def visit_generic_const_(self, const: Any) -> Any:
        """Return the constant, or the parameter that it becomes."""
        if const in self.seen:
            return self.seen[const]
        name = self.named(const)
        if name is None:
            return const
        self.seen[const] = relax.Var(name, const.ty)
        self.params.append(self.seen[const])
        return self.seen[const]


@tvm.transform.module_pass(opt_level=0, name="LiftWeights")
@dataclass(frozen=True)
class LiftWeights:
    """Turn the constants of ``main`` into parameters; their values land in ``weights`` in order.

    before: ``main(x): f(x, const)`` --> after: ``main(x, w): f(x, w)``, ``num_input = 1``

    Code and weights can then be stored apart: the weights are mapped from the file, not copied.
    """

    weights: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with a ``main`` that has no large constants."""
        main = mod["main"]
        lifter = Lifter(self._named, mod)
        body = lifter.visit_expr(main.body)
        params = [*main.params, *lifter.params]
        lifted = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
        lifted = lifted.with_attr("num_input", len(main.params))
        return tvm.IRModule({**dict(mod.functions_items()), mod.get_global_var("main"): lifted})

    def _named(self, const: Any) -> str | None:
        """Return a new name for a weight, which keeps its values; None for a small number."""
        name = name_of(const) or "constant"
        if array_of(const).nbytes <= SCALAR_BYTES and name != NUMBERS:
            return None
        fresh, count = name, 1
        while fresh in self.weights:
            count += 1
            fresh = f"{name}#{count}"
        self.weights[fresh] = owned(const)
        return fresh
