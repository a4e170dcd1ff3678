"""What the weights of one layer are fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tvm_sparse.pruning.compensation.statistics import InputStatistics
from tvm_sparse.pruning.compensation.update import (
    damped,
    damping_of,
    inverse_factor,
    saliency,
    solution,
)
from tvm_sparse.pruning.compensation.views import View


@dataclass(frozen=True)
class Normal:
    """Normal equations of layers that read the same inputs ``X``, ``(parts, columns, columns)``.

    ``hessian`` is ``X^T X``, damped, with its ``factor``. A weight times ``mixed`` is what wanted
    outputs are, multiplied with ``X``.
    """

    hessian: Tensor
    mixed: Tensor
    factor: Tensor


@dataclass(frozen=True)
class Goal:
    """What a layer is fitted to, each ``(parts, rows or columns, columns)``.

    ``hessian`` with its ``factor``, and ``wanted``, the products ``Y^T X`` of the outputs that are
    wanted. ``best`` are the layer's weights without a mask.
    """

    hessian: Tensor
    factor: Tensor
    wanted: Tensor
    best: Tensor

    @classmethod
    def of(cls, view: View, normal: Normal) -> Goal:
        """Return the goal of a layer, in float64."""
        hessian, factor = normal.hessian, normal.factor
        wanted = view.parts(view.layer.values(), len(hessian)).to(hessian) @ normal.mixed
        return cls(hessian, factor, wanted, solution(wanted, factor))

    def single(self) -> Goal:
        """Return the same to be fitted to in float32."""
        hessian, wanted, best = (x.float() for x in (self.hessian, self.wanted, self.best))
        return Goal(hessian, self.factor, wanted, best)

    @cached_property
    def saliency(self) -> Tensor:
        """What each weight costs alone."""
        return saliency(self.best, self.factor)

    @cached_property
    def energy(self) -> float:
        """Of the outputs of the best weights."""
        return energy_of(self.best, self.hessian)


def goal_of(
    view: View, statistics: InputStatistics, damping: float, reference: float, *, again: bool
) -> Goal:
    """Return the goal of a layer: in float64, or in float32 and kept if it is asked for again."""
    key = (view.order, damping, reference)
    normal = statistics.kept(key, lambda: _normal(view, statistics, damping, reference))
    if not again:
        return Goal.of(view, normal)
    return statistics.kept((view.layer.key, *key), lambda: Goal.of(view, normal).single())


def _normal(view: View, statistics: InputStatistics, damping: float, reference: float) -> Normal:
    """Return the equations of all layers that read the inputs of ``statistics``."""
    gram, cross = statistics.matrices()
    own = view.columns(gram)
    extra = damping_of(own, damping)
    mixed = hessian = damped(own, extra)
    del own
    if cross is not gram:
        mixed = torch.lerp(hessian, damped(view.columns(cross), extra), reference)
    return Normal(hessian, mixed, inverse_factor(hessian))


def energy_of(weight: Tensor, hessian: Tensor) -> float:
    """Return ``||X W^T||^2``, given ``X^T X``."""
    return float(((weight @ hessian) * weight).sum())


def share(lost: float, energy: float) -> float:
    """Return the fraction ``lost`` of an energy, 0 where there is none."""
    return lost / energy if energy > 0 else 0.0
