"""Channels of depthwise layers in the order of their taps, so that vectors of them share taps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.notes import Notes
from tvm_sparse.machine.vector import LANES
from tvm_sparse.passes.graph.rewrite import layer_name
from tvm_sparse.passes.shrink.channels import Group, weight_matrix
from tvm_sparse.passes.shrink.remove_channels import ChannelAnalysis, Rebuild, analyse

GAIN = 0.8
"""Fraction of taps that must be left of those before for an order to be worth it."""

DENSE = 0.95
"""Density from which a neighbouring layer has no pattern that an order of channels could break."""


@tvm.transform.module_pass(opt_level=0, name="OrderChannels")
@dataclass(frozen=True)
class OrderChannels:
    """Permute the channels of depthwise layers with pruned taps; nothing is computed for it.

    before: ``conv1x1 -> depthwise (taps anywhere) -> conv1x1``
    after:  the same, the rows of the first weight, the depthwise kernels and the columns of the
            second weight permuted: 16 neighbouring channels keep nearly the same taps

    The tensors between keep their channels in the new order; tensors tied to an input, an output or
    an operator that is not understood keep theirs. Layers next to it must be dense: an order would
    break the banks or blocks of a pruned one. Expects channels last. ``notes`` gets a phrase for
    each layer that was ordered. (Pruned taps: Park et al., DEPrune, NeurIPS 2024.)
    """

    notes: Notes = field(default_factory=Notes)

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with ordered layers, or ``mod`` itself where no order helps."""
        analysis = analyse(mod)
        if analysis is None:
            return mod
        orders = _orders(analysis, self.notes)
        if not orders:
            return mod

        def keep(var: relax.Var) -> np.ndarray:
            group = analysis.channels.group(var)
            return orders.get(id(group), np.arange(len(group.live)))

        return Rebuild(analysis, self.notes, keep).module(mod)


def _orders(analysis: ChannelAnalysis, notes: Notes) -> dict[int, np.ndarray]:
    """Return a permutation for each group of tied tensors that gains by one."""
    kernels: dict[int, list[tuple[str, np.ndarray]]] = {}
    groups: dict[int, Group] = {}
    blocked: set[int] = set()
    for var, value in analysis.values.items():
        treatment = analysis.treatment(value)
        if treatment not in ("depthwise", "linear"):
            continue
        weight = analysis.value(value.args[1])
        array = array_of(weight)
        ends = [analysis.channels.group(v) for v in (var, value.args[0])]
        if treatment == "linear" and np.count_nonzero(array) < DENSE * array.size:
            blocked.update(id(group) for group in ends)
        elif treatment == "depthwise":
            taps = weight_matrix(value, array)[..., 0] != 0
            groups[id(ends[0])] = ends[0]
            kernels.setdefault(id(ends[0]), []).append((layer_name(weight), taps))
    orders = {}
    for key, found in kernels.items():
        taps = np.concatenate([kept for _, kept in found], axis=1)
        if groups[key].fixed or key in blocked or len(taps) <= LANES:
            continue
        order = order_by_taps(taps)
        before, after = shared_taps(taps), shared_taps(taps[order])
        if after <= GAIN * before:
            orders[key] = order
            for name, _ in found:
                share = f"{after / taps.size:.0%} of the taps instead of {before / taps.size:.0%}"
                notes.add(name, f"channels ordered by their taps: groups of {LANES} share {share}")
    return orders


def shared_taps(taps: np.ndarray) -> int:
    """Return how many weights are stored if 16 neighbouring channels store what any of them keeps.

    ``taps`` is ``(channels, taps)``, True where a tap is kept.
    """
    starts = np.arange(0, len(taps), LANES)
    union = np.logical_or.reduceat(taps, starts, axis=0).sum(1)
    return int(union @ np.minimum(LANES, len(taps) - starts))


def order_by_taps(taps: np.ndarray) -> np.ndarray:
    """Return an order of the channels in which neighbours keep similar taps.

    Greedy: each group of 16 begins with the channel that keeps most of those left. Then it takes
    the one that adds the fewest taps to the group; of several, the one that fills it best.
    """
    left, order = np.arange(len(taps)), []
    while len(left):
        union = np.zeros(taps.shape[1], bool)
        for _ in range(min(LANES, len(left))):
            kept = taps[left]
            added, common = (kept & ~union).sum(1), (kept & union).sum(1)
            best = int(np.lexsort((-common, added if union.any() else -added))[0])
            order.append(int(left[best]))
            union |= kept[best]
            left = np.delete(left, best)
    return np.array(order)
