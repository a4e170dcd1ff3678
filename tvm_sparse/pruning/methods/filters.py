"""Filter and channel pruning: whole channels go, from every layer that sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.ranking import kept_count
from tvm_sparse.pruning.layers import CONV, DEPTHWISE, LINEAR, Selection, select
from tvm_sparse.pruning.methods.base import Importance, Method, Proposal, check_sparsity
from tvm_sparse.pruning.methods.channels import (
    ChannelSelection,
    Norm,
    channels_of,
    check_norm,
    combine,
    filter_scores,
    keep_channels,
    touched,
)
from tvm_sparse.pruning.structure.channels import ChannelGraph

Rank = Literal["outputs", "inputs"]


@dataclass(frozen=True)
class FilterPruning(Method):
    """Remove the same fraction of channels everywhere (filter and channel pruning baselines).

    A channel leaves the layer that makes it (filter, bias, batch norm), the depthwise layers that
    pass it on, and the inputs of the layers that read it. So the smaller network computes exactly
    what the masked one does. Layers whose outputs are added lose the same channels.

    Parameters
    ----------
    sparsity
        Fraction of the channels to remove; at least one stays. The fraction of zeros in a weight
        is higher where it loses rows and columns.
    norm
        ``"l2"``, ``"l1"`` or ``"fpgm"`` (distance to the geometric median).
    rank
        ``"outputs"``: by the weights that make a channel (filter pruning). ``"inputs"``: by the
        weights that read it (channel pruning).
    """

    sparsity: float
    norm: Norm = "l2"
    rank: Rank = "outputs"
    sorts: ClassVar[Sequence[str]] = (CONV, DEPTHWISE, LINEAR)
    structural: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a sparsity outside [0, 1] and unknown norms."""
        check_sparsity(self.sparsity)
        check_norm(self.norm)

    def select(
        self, model: nn.Module, include: Sequence[str], ignore: Sequence[str]
    ) -> ChannelSelection:
        """Choose the sets of channels all of whose makers are included."""
        chosen = select(model, include, ignore, self.sorts)
        names = {layer.name for layer in chosen}
        modules = dict(model.named_modules())
        sets, skipped = [], dict(chosen.skipped)
        for group in ChannelGraph(model).groups():
            makers = [*group.producers, *group.depthwise]
            reason = group.blocked[0] if group.blocked else "is tied to a layer that is left out"
            if makers and group.consumers and not group.blocked and names.issuperset(makers):
                channels = channels_of(group, modules)
                reason = channels.why_not()
                if not reason:
                    sets.append(channels)
                    continue
                reason = f"cannot lose channels {reason}"
            for name in makers:
                skipped.setdefault(name, f"its output {reason}")
        if not sets:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in list(skipped.items())[:3])
            raise InputError(type(model).__name__, f"no channel can be removed ({reasons})")
        weights, vectors = touched(sets)
        return ChannelSelection(
            tuple(weights.values()), skipped, tuple(vectors.values()), tuple(sets)
        )

    def propose(
        self, selection: Selection, due: float, importance: Importance
    ) -> dict[str, Proposal]:
        """Return the masks of all parameters that lose channels."""
        assert isinstance(selection, ChannelSelection)
        target = due * self.sparsity
        parts = []
        for channels in selection.sets:
            matrices = channels.filters() if self.rank == "outputs" else channels.readers()
            count = kept_count(channels.count, target, "filter pruning")
            parts.append(channels.masks(keep_channels(filter_scores(matrices, self.norm), count)))
        what = "filters removed" if self.rank == "outputs" else "channels removed"
        return {key: Proposal(mask, what, target) for key, mask in combine(parts).items()}

    def describe(self) -> str:
        """Return the method with its parameters."""
        what = "filters" if self.rank == "outputs" else "channels"
        return f"{what} {self.sparsity:.2%} by {self.norm}"
