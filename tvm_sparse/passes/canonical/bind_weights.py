"""Weights that are parameters become named constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import tvm

from tvm_sparse.errors import InputError
from tvm_sparse.passes.graph.rewrite import constant


@tvm.transform.module_pass(opt_level=0, name="BindWeights")
@dataclass(frozen=True)
class BindWeights:
    """Replace the parameters of ``main`` after its inputs by constants that carry their names.

    before: ``main(x, w): matmul(x, w)`` --> after: ``main(x): matmul(x, const)``

    ``weights`` are in the order of the parameters behind the first ``inputs`` ones.
    """

    weights: Mapping[str, np.ndarray] = field(repr=False)
    inputs: int = 1

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with ``main`` bound."""
        main = mod["main"]
        params = list(main.params)[self.inputs :]
        if len(params) != len(self.weights):
            raise InputError(
                "main", f"{len(params)} weight parameters", f"{len(self.weights)} named weights"
            )
        pairs = zip(params, self.weights.items(), strict=True)
        bound = main.bind_params({p: constant(value, name) for p, (name, value) in pairs})
        bound = bound.without_attr("num_input")
        return tvm.IRModule({**dict(mod.functions_items()), mod.get_global_var("main"): bound})
