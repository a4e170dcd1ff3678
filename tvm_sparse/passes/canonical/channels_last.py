"""One activation layout for the whole network: channels last, transposes only at the edges."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relax

from tvm_sparse.passes.graph.convolution import CONVOLUTIONS
from tvm_sparse.passes.graph.rewrite import op_name


@tvm.transform.module_pass(opt_level=0, name="ChannelsLast")
@dataclass(frozen=True)
class ChannelsLast:
    """Give every convolution channels-last activations and weights with input channels last.

    before: ``conv2d(x: NCHW, w: OIHW)`` --> after: ``conv2d(permute(x): NHWC, permute(w): OHWI)``
    with the permutes between layers cancelled.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with channels last, or ``mod`` itself when it has no convolution."""
        if not _has_convolution(mod):
            return mod
        layouts = {f"relax.{name}": [form.data, form.kernel] for name, form in CONVOLUTIONS.items()}
        return relax.transform.ConvertLayout(layouts)(mod)


def _has_convolution(mod: tvm.IRModule) -> bool:
    found: list[bool] = []

    def look(expr: relax.Expr) -> None:
        found.append(op_name(expr) in CONVOLUTIONS)

    for _name, func in mod.functions_items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func.body, look)
    return any(found)
