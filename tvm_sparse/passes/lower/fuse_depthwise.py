"""A depthwise convolution and the 1x1 convolution behind it become one GPU kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst

from tvm_sparse.ops.cuda.multiply import Multiplier, multiplier
from tvm_sparse.ops.cuda.separable import depthwise_strips, pointwise, whole_images
from tvm_sparse.passes.graph.merge import Between, merge
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    add_function,
    constant,
    name_of,
    rewrite,
    shape_of,
)
from tvm_sparse.passes.lower.separable_pairs import Convolution, Pair, Pairs
from tvm_sparse.patterns.detector import detect
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.cuda import options
from tvm_sparse.selection.cuda.separable_options import SeparableChoice, separable
from tvm_sparse.selection.decisions import Decision
from tvm_sparse.selection.layer import Layer

GAIN = 0.9
"""Modelled time over that of two kernels from which a pair is fused: less may be noise."""


@tvm.transform.module_pass(opt_level=0, name="FuseDepthwise")
@dataclass(frozen=True)
class FuseDepthwise:
    """Fuse pairs of depthwise and 1x1 convolution on GPUs where the model finds that faster.

    before: ``conv2d(clip(depthwise(x, t) + b), w)``
    after:  ``call_tir(depthwise_pointwise, (x, taps, b, values))``

    The tensor between them is never stored. Expects NHWC; the decisions, and why a pair stays
    apart, go to the chooser. (Fused pairs: Park et al., DEPrune, NeurIPS 2024, have them as two.)
    """

    chooser: Chooser

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module with fused pairs."""
        chosen: list[tuple[Pair, SeparableChoice]] = []
        names: list[str] = []
        for _, func in mod.functions_items():
            if isinstance(func, relax.Function):
                pairs = Pairs(func)
                names += pairs.layers()
                chosen += self._choose(pairs)
        if not chosen:
            return mod
        self.chooser.decisions.places.update({n: i for i, n in enumerate(dict.fromkeys(names))})
        for pair, option in chosen:
            self._record(pair, option)

        def rule(rewriter: Rewriter, _call: relax.Call) -> Any | None:
            for pair, option in chosen:
                if rewriter.original.same_as(pair.second.call):
                    return _emit(rewriter, pair, option)
            return None

        return rewrite(mod, rule)

    def _choose(self, pairs: Pairs) -> list[tuple[Pair, SeparableChoice]]:
        """Return the pairs to fuse; leave a note for the layers of the others."""
        chosen = []
        for pair in pairs.find():
            found = self._option(pair)
            if isinstance(found, str):
                note = f"not fused with the depthwise convolution before it: {found}"
                self.chooser.notes.add(pair.second.layer.name, note)
            else:
                chosen.append((pair, found))
        return chosen

    def _option(self, pair: Pair) -> SeparableChoice | str:
        """Return the kernel of a pair, or why it stays apart."""
        if pair.reason:
            return pair.reason
        layers = (pair.first.layer, pair.second.layer)
        for layer in layers:
            forced = self.chooser.config.forced(layer.name)
            if forced not in (None, "dense"):
                return f"{layer.name} is forced to be {forced}"
            if not np.isfinite(layer.weight).all():
                return f"{layer.name} has weights that are not finite"
        first, second = (layer.contraction for layer in layers)
        found = separable(first, second, self.chooser.target)
        if isinstance(found, str):
            return found
        apart = sum(self._alone(layer) for layer in layers)
        if found.seconds <= GAIN * apart:
            return found
        times = f"{found.seconds * 1e6:.1f} us instead of {apart * 1e6:.1f} us"
        return f"modelled {times} in two kernels"

    def _alone(self, layer: Layer) -> float:
        """Return the modelled seconds of a layer's fastest own kernel."""
        times = [options.dense(layer.contraction, self.chooser.target).seconds]
        looked_for = self.chooser.config.sparse and not self.chooser.config.forced(layer.name)
        if looked_for and not layer.weight.all():
            found = options.sparse(
                layer.contraction, layer.analysis().scan("hwi"), self.chooser.target
            )
            times += [o.seconds for o in found if not isinstance(o, str)]
        return min(times)

    def _record(self, pair: Pair, option: SeparableChoice) -> None:
        """Record both layers of a fused pair."""
        apart = sum(self._alone(c.layer) for c in (pair.first, pair.second))
        gain = (
            f"saves {option.saved / 1e6:.2f} MB of traffic, modelled {option.seconds * 1e6:.1f} us"
            f" instead of {apart * 1e6:.1f} us in two kernels (not measured)"
        )
        names = [c.layer.name for c in (pair.first, pair.second)]
        for convolution, other in zip((pair.first, pair.second), reversed(names), strict=True):
            layer = convolution.layer
            reason = f"fused depthwise + pointwise, with {other}: {gain}"
            reason = "; ".join(filter(None, (self.chooser.notes.of(layer.name), reason)))
            zeros = float((layer.weight == 0).mean())
            depthwise = layer.contraction.depthwise
            found = detect(layer.weight, depthwise=depthwise) if zeros else None
            pattern = found.best.pattern.describe() if found and found.best else "dense"
            shape = tuple(layer.weight.shape)
            # Two layers have a kernel together; its time counts once.
            modelled = option.seconds * 1e6 if convolution is pair.first else 0.0
            record = Decision(layer.name, layer.operator, shape, zeros, pattern, "dense", reason)
            self.chooser.decisions.add(replace(record, modelled_us=modelled))


def fused(
    option: SeparableChoice,
    between: Between,
    operands: tuple[Any, ...] = (),
    multiply: Multiplier | None = None,
) -> tirx.PrimFunc:
    """Return the kernel ``f(X, taps, *operands, values, Y)`` of a pair, see :func:`merge`."""
    shape, (_, weights) = option.shape, option.formats
    first = depthwise_strips(option.first, whole_images(option.second, shape.tile))
    multiply = multiply or multiplier(option.second.numerics)
    return merge(first, pointwise(option.second, weights, shape, multiply), between, operands)


def _emit(rewriter: Rewriter, pair: Pair, option: SeparableChoice) -> relax.Call:
    """Return the call of a pair's kernel; what the pair consisted of is then dead."""
    constants = _constants(pair)
    func = fused(option, _between(pair), tuple(c.ty for c in constants))
    arrays = [
        _packed(convolution, format)
        for convolution, format in zip((pair.first, pair.second), option.formats, strict=True)
    ]
    x = rewriter.visit_expr(pair.first.call.args[0])
    arguments = [x, arrays[0], *constants, arrays[1]]
    function = add_function(rewriter.builder_, func, "depthwise_pointwise")
    return relax.call_tir(function, arguments, out_ty=pair.second.call.ty)


def _packed(convolution: Convolution, format: Any) -> Any:
    name = name_of(convolution.weight)
    (values,) = format.encode(convolution.layer.matrix).values()
    return constant(values, f"{name}.values" if name else "")


def _constants(pair: Pair) -> list[Any]:
    """Return the tensors that are read between the pair's layers; scalars stay in the code."""
    return [c for _, call in pair.between for c in call.args if _is_tensor(c)]


def _is_tensor(operand: relax.Expr) -> bool:
    return isinstance(operand, GenericConst) and bool(shape_of(operand))


def _between(pair: Pair) -> Between:
    """Return what emits the pair's element-wise operators on another tensor."""

    def emit(builder: relax.BlockBuilder, x: relax.Expr, operands: list[Any]) -> Any:
        left = iter(operands)
        known = {pair.var: x}
        for var, call in pair.between:
            arguments = [next(left) if _is_tensor(a) else known.get(a, a) for a in call.args]
            x = known[var] = builder.emit(relax.Call(call.op, arguments, call.attrs, call.ty_args))
        return x

    return emit
