"""The DEPrune method: DCP, BWT, HSR, and filter pruning of PW-conv2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.depthwise import DepthwiseTaps
from tvm_sparse.patterns.ranking import kept_count
from tvm_sparse.pruning.deprune.diagonal import GROUP, imbalance
from tvm_sparse.pruning.deprune.recalibration import Alpha, Recalibrated, Unaligned, recalibrate
from tvm_sparse.pruning.layers import CONV, DEPTHWISE, PrunableLayer, Selection, select
from tvm_sparse.pruning.methods.base import Importance, Method, Proposal, check_sparsity, scores_of
from tvm_sparse.pruning.methods.channels import (
    ChannelSelection,
    ChannelSet,
    Norm,
    channels_of,
    check_norm,
    combine,
    filter_scores,
    keep_channels,
    touched,
)
from tvm_sparse.pruning.structure.separable import find_separable

Variant = Literal["DEPrune", "DEPrune-B", "DEPrune-BH"]
Part = Literal["depthwise", "pointwise"]


@dataclass(frozen=True)
class SeparableSelection(ChannelSelection):
    """The depthwise layers (``taps``) and the sets of PW-conv2 filters (``sets``) to prune."""

    taps: tuple[PrunableLayer, ...] = ()


@dataclass(frozen=True)
class DEPrune(Method):
    """Prune depthwise separable convolutions (Park et al., NeurIPS 2024).

    Depthwise layers lose single taps: in the diagonal-wise refactorization each tap is a whole
    column of a sub-GEMM. PW-conv2 layers lose whole filters, and the next PW-conv1 these inputs.
    PW-conv1 filters are never ranked, since that would remove whole depthwise channels.

    Parameters
    ----------
    depthwise, pointwise
        Fraction of taps, and fraction of PW-conv2 filters, to remove. 0 leaves them alone.
    variant
        ``"DEPrune"``: one threshold a depthwise layer (DCP). ``"DEPrune-B"``: every sub-GEMM of
        32 channels loses equally many taps (BWT). ``"DEPrune-BH"``: the kept vectors become
        multiples of 32 (HSR).
    alpha
        For ``"DEPrune-BH"``: the speed-up that dropping a layer's ragged tile gives on the target,
        as a function or a table by layer name (see :mod:`.recalibration`).
    align
        What HSR recalibrates.
    norm
        How filters are ranked: ``"l2"``, ``"l1"`` or ``"fpgm"``.
    """

    depthwise: float
    pointwise: float = 0.0
    variant: Variant = "DEPrune-B"
    alpha: Alpha | None = field(default=None, repr=False)
    align: tuple[Part, ...] = ("depthwise",)
    norm: Norm = "l2"
    structural: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse parameters that describe no pruning."""
        check_sparsity(self.depthwise, "depthwise")
        check_sparsity(self.pointwise, "pointwise")
        check_norm(self.norm)
        if self.variant not in ("DEPrune", "DEPrune-B", "DEPrune-BH"):
            raise InputError("variant", repr(self.variant), "DEPrune, DEPrune-B or DEPrune-BH")
        if self.variant == "DEPrune-BH" and self.alpha is None:
            raise InputError(
                "DEPrune-BH",
                "no alpha",
                "the measured speed-up of aligned layers",
                "pass alpha= (a function that measures, or a table), or take DEPrune-B",
            )

    def select(
        self, model: nn.Module, include: Sequence[str], ignore: Sequence[str]
    ) -> SeparableSelection:
        """Choose depthwise layers, and sets of PW-conv2 filters whose makers are all included."""
        network = find_separable(model)
        chosen = select(model, include, ignore, (DEPTHWISE, CONV))
        modules = dict(model.named_modules())
        names = {layer.name for layer in chosen}
        taps = [x for x in chosen if x.sort == DEPTHWISE and self.depthwise > 0]
        sets = []
        skipped = {**chosen.skipped, **network.skipped}
        for group in network.tied if self.pointwise > 0 else ():
            channels = channels_of(group, modules)
            reason = channels.why_not()
            if not names.issuperset(group.producers):
                left = dict.fromkeys(group.producers, "is tied to a layer left out")
                skipped = {**left, **skipped}
            elif reason:
                skipped.update(dict.fromkeys(group.producers, f"cannot lose filters {reason}"))
            else:
                sets.append(channels)
        weights, vectors = touched(sets)
        layers = {**{layer.key: layer for layer in taps}, **weights}
        if not layers:
            raise InputError(
                type(model).__name__,
                "no tap and no filter to prune",
                "depthwise or pointwise above 0, and layers left by include and ignore",
            )
        order = {name: i for i, name in enumerate(modules)}
        ordered = sorted(layers.values(), key=lambda layer: order[layer.name])
        return SeparableSelection(
            tuple(ordered), skipped, tuple(vectors.values()), tuple(sets), tuple(taps)
        )

    def propose(
        self, selection: Selection, due: float, importance: Importance
    ) -> dict[str, Proposal]:
        """Return the masks of depthwise taps, and of all that loses a filter."""
        assert isinstance(selection, SeparableSelection)
        proposals = self._filters(selection.sets, due * self.pointwise)
        proposals.update(self._taps(selection.taps, due * self.depthwise))
        return proposals

    def _taps(self, layers: Sequence[PrunableLayer], target: float) -> dict[str, Proposal]:
        counts = [_group_count(layer, target) for layer in layers]
        aligned = self._recalibrated("depthwise", counts)
        proposals = {}
        for layer, count, after in zip(layers, counts, aligned, strict=True):
            scores = scores_of(layer).reshape(layer.shape[0], -1)
            group = min(GROUP, len(scores))
            if self.variant == "DEPrune":
                pattern = DepthwiseTaps(group, balanced=False)
                mask = pattern.project(scores, target)
                note = f"imbalance {imbalance(mask):.2%}"
            else:
                pattern = DepthwiseTaps(group, keep=after.kept)
                mask = pattern.project(scores)
                note = _alignment(count, after)
            proposals[layer.key] = Proposal(
                mask.reshape(layer.shape), pattern.describe(), target, note
            )
        return proposals

    def _filters(self, sets: Sequence[ChannelSet], target: float) -> dict[str, Proposal]:
        counts = []
        for channels in sets:
            first, *others = channels.rows
            kept = max(kept_count(channels.count, target, "PW-conv2"), 1)
            tied = tuple(layer.name for layer in others)
            counts.append(Unaligned(first.name, first.shape, kept, channels.count, tied))
        parts, notes = [], {}
        aligned = self._recalibrated("pointwise", counts)
        for channels, count, after in zip(sets, counts, aligned, strict=True):
            scores = filter_scores(channels.filters(), self.norm)
            parts.append(channels.masks(keep_channels(scores, after.kept)))
            remarks = [f"{after.kept} of {count.total} filters", _alignment(count, after)]
            if count.tied:
                remarks.append(f"tied: {channels.name}")
            for layer in channels.rows:
                notes[layer.key] = "; ".join(filter(None, remarks))
        return {
            key: Proposal(mask, "filters removed", target, notes.get(key, ""))
            for key, mask in combine(parts).items()
        }

    def _recalibrated(self, part: Part, counts: Sequence[Unaligned]) -> list[Recalibrated]:
        if self.variant != "DEPrune-BH" or part not in self.align:
            return [Recalibrated(count.kept, "") for count in counts]
        assert self.alpha is not None
        return recalibrate(counts, self.alpha)

    def describe(self) -> str:
        """Return the method with its parameters."""
        return f"{self.variant} {self.depthwise:.2%} DW, {self.pointwise:.2%} PW ({self.norm})"


def _group_count(layer: PrunableLayer, target: float) -> Unaligned:
    weights = min(GROUP, layer.shape[0]) * int(np.prod(layer.shape[1:]))
    kept = kept_count(weights, target, layer.name)
    return Unaligned(layer.name, layer.shape, kept, weights)


def _alignment(count: Unaligned, after: Recalibrated) -> str:
    if not after.mark:
        return ""
    return (
        f"HSR {after.mark}: {count.kept} -> {after.kept} of {count.total} vectors, "
        f"alpha {after.alpha:.3f}, beta {after.beta:.4f}"
    )
