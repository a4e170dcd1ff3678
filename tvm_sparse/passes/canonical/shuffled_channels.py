"""Channels that become pixels, pixels that become channels, and groups of channels that mix."""

from __future__ import annotations

from typing import Any

from tvm import relax

from tvm_sparse.passes.graph.atoms import Step, atoms_of
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, shape_of
from tvm_sparse.passes.graph.views import step_of

_STEPS = ("permute_dims", "reshape", "permute_dims", "reshape")


def shuffled(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return a shuffle of channels-last images as one of these, turned channels first.

    before: ``reshape(permute(reshape(permute(x: NHWC, [0, 3, 1, 2]), (n, c, 2, 2, h, w)), …))``
    after:  ``permute(reshape(permute(reshape(x, (n, h, w, c, 2, 2)), …), NHWC), [0, 3, 1, 2])``
    """
    steps, value = list[Step](), call
    for name in reversed(_STEPS):
        shape = shape_of(value)
        step = step_of(rewriter, value, tuple(shape)) if shape and op_name(value) == name else None
        if step is None:
            return None
        steps.insert(0, step)
        source = value.args[0]
        value = rewriter.resolve(source)
    rank, shape = len(steps[0][1]), shape_of(source)
    first = (0, rank - 1, *range(1, rank - 1))
    if rank < 3 or shape is None or tuple(steps[0][1]) != first or len(steps[-1][1]) != rank:
        return None
    before, behind = atoms_of(shape, steps)
    if not behind:
        return None
    order = [behind[0], *behind[2:], behind[1]]
    turned = [before.index(atom) for axis in order for atom in axis]
    parted = rewriter.emit(relax.op.reshape(source, [atom.extent for atom in before]))
    moved = rewriter.emit(relax.op.permute_dims(parted, turned))
    extents = call.ty.shape.values
    joined = relax.op.reshape(moved, [extents[0], *extents[2:], extents[1]])
    return relax.op.permute_dims(rewriter.emit(joined), first)
