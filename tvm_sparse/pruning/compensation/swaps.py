"""Better masks of the same pattern: kept and pruned units change places where the loss falls.

The loss of a row ``v`` is ``E(v) = v H v^T - 2 v wanted^T``. With ``c = wanted - v H``, pruning
the kept columns ``I`` and keeping the columns ``J`` in their place, with the best new values there,
changes it by

    v_I H_II v_I^T + 2 v_I c_I^T - (c_J + v_I H_IJ) H_JJ^-1 (c_J + v_I H_IJ)^T

The best swaps of a group of rows are made together, their rows are fitted anew, and what did not
help is undone: no row gets worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.pruning.compensation.update import refit

ROUNDS = 12
"""Rounds of swaps a layer. On MiniLM they take about half as long as all else."""

_TOGETHER = 4
"""Swaps of a group of rows in its first round; half as many after a round that did not help."""

_LEAVING = 8
"""Kept units of a pool that are tried: those that cost least alone."""

_FIT = 5
"""Iterations of conjugate gradients after a round."""

_ELEMENTS = 1 << 24
"""Elements of the largest tensor: as many groups of rows are looked at together."""

_LEAST = 1e-6
"""A swap has to gain this fraction of the energy that the loss is measured against."""


def swapped(
    found: Tensor,
    mask: Tensor,
    hessian: Tensor,
    wanted: Tensor,
    exchange: Exchange,
    *,
    alive: Tensor,
    rounds: int = ROUNDS,
    steps: int = 30,
) -> tuple[Tensor, Tensor]:
    """Return weights and mask after at most ``rounds`` rounds of swaps.

    Parameters
    ----------
    found, mask, wanted
        ``(parts, rows, columns)`` of :func:`.update.refit`: the fitted weights, where they may
        differ from 0 (bool), and ``Y^T X`` for the wanted outputs ``Y``.
    hessian
        ``(parts, columns, columns)``, positive definite.
    exchange
        What changes places, and where.
    alive
        Like ``mask``: the weights that may be kept at all.
    rounds
        0 returns ``found`` and ``mask``.
    steps
        Iterations of conjugate gradients at the end.
    """
    layout = _Layout(exchange, *mask.shape[-2:])
    if not layout.parted(len(mask)):
        return found, mask
    search = _Search(layout, hessian, wanted, layout.open_units(mask, alive))
    values, kept = search.rounds(layout.rows(found.float()), layout.rows(mask), rounds)
    new_mask = layout.whole(kept)
    new = refit(layout.whole(values).to(found), new_mask, hessian, wanted, steps)
    before, after = (layout.rows(loss_of(v, hessian, wanted)) for v in (found, new))
    better = layout.whole((after.sum(2) < before.sum(2))[:, :, None].expand_as(before))
    return torch.where(better, new, found), torch.where(better, new_mask, mask)


def loss_of(values: Tensor, hessian: Tensor, wanted: Tensor) -> Tensor:
    """Return the loss ``(parts, rows, 1)`` of each row of ``values`` (see above)."""
    return ((values @ hessian - 2 * wanted) * values).sum(-1, keepdim=True)


@dataclass(frozen=True)
class _Layout:
    """A matrix as ``(parts, groups, height, columns)``: a group holds the rows of its units."""

    exchange: Exchange
    matrix_rows: int
    matrix_columns: int

    def parted(self, parts: int) -> bool:
        """Whether units and blocks lie in one of ``parts`` parts, one under the other, each."""
        exchange = self.exchange
        tall = exchange.blocks[0] if exchange.blocks else 1
        period = math.lcm(tall, exchange.height * exchange.apart if exchange.height > 1 else 1)
        return parts == 1 or self.matrix_rows % period == 0

    @property
    def pool(self) -> int:
        """Columns in a pool, in whole units."""
        width = self.exchange.width
        return self.exchange.pool or -(-self.matrix_columns // width) * width

    @property
    def missing(self) -> int:
        """Columns that fill up the last pool."""
        return -self.matrix_columns % self.pool

    def rows(self, matrix: Tensor) -> Tensor:
        """Return the rows of ``matrix`` (parts, rows, columns) in groups, filled up with zeros."""
        period = self.exchange.height * self.exchange.apart
        padded = functional.pad(matrix, (0, 0, 0, -self.matrix_rows % period))
        parted = padded.unflatten(1, (-1, self.exchange.height, self.exchange.apart))
        return parted.transpose(2, 3).flatten(1, 2)

    def whole(self, groups: Tensor) -> Tensor:
        """Undo :meth:`rows`."""
        parted = groups.unflatten(1, (-1, self.exchange.apart)).transpose(2, 3)
        return parted.flatten(1, 3)[:, : self.matrix_rows]

    def units(self, matrix: Tensor) -> Tensor:
        """Return columns as ``(..., pools, units of a pool, width)``, filled up with zeros."""
        padded = functional.pad(matrix, (0, self.missing))
        return padded.unflatten(-1, (-1, self.pool // self.exchange.width, self.exchange.width))

    def columns(self, units: Tensor) -> Tensor:
        """Undo :meth:`units`."""
        return units.flatten(-3)[..., : self.matrix_columns]

    def open_units(self, mask: Tensor, alive: Tensor) -> Tensor:
        """Return which units ``(parts, groups, pools, units)`` may change places."""
        if self.exchange.blocks is not None:
            alive = alive & _occupied(mask, self.exchange.blocks)
        real, kept, free = (
            self.units(self.rows(flags)) for flags in (torch.ones_like(mask), mask, alive)
        )
        whole = real.any(2).all(-1)
        same = _every(kept | ~real) | ~kept.any(-1).any(2)
        return whole & same & _every(free | ~real)


def _every(units: Tensor) -> Tensor:
    return units.all(-1).all(2)


def _occupied(mask: Tensor, blocks: tuple[int, int]) -> Tensor:
    """Return the weights in blocks that hold a kept one."""
    counts = functional.max_pool2d(mask.float()[:, None], blocks, ceil_mode=True)[:, 0] > 0
    wide = counts.repeat_interleave(blocks[0], 1).repeat_interleave(blocks[1], 2)
    return wide[:, : mask.shape[1], : mask.shape[2]]


class _Search:
    """Rounds of swaps in float32; all matrices in groups (see :class:`_Layout`)."""

    def __init__(
        self, layout: _Layout, hessian: Tensor, wanted: Tensor, open_units: Tensor
    ) -> None:
        self.layout, self.hessian, self.open = layout, hessian.float(), open_units
        self.wanted = layout.rows(wanted.float())
        missing = layout.missing
        padded = functional.pad(self.hessian, (0, missing, 0, missing))
        padded.diagonal(dim1=-2, dim2=-1)[:, padded.shape[-1] - missing :] = 1
        pools = _diagonal_blocks(padded[:, None], layout.pool)[:, 0]
        self.own = _diagonal_blocks(pools, layout.exchange.width)  # H_II of every unit
        unit = torch.eye(layout.exchange.width).to(pools)
        lower = torch.linalg.cholesky(self.own)
        self.white = torch.linalg.solve_triangular(lower, unit, upper=False)
        rows = pools.unflatten(-1, self.own.shape[2:4]).unflatten(2, self.own.shape[2:4])
        self.near = torch.einsum("pqaxuz,pquyz->pqaxuy", rows, self.white).flatten(-2)

    def rounds(self, values: Tensor, kept: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
        """Return ``values`` and ``kept`` after ``rounds`` at most."""
        loss = self.loss(values, slice(None))
        least = _LEAST * (self.wanted * values).sum((-1, -2)).abs()
        budget = torch.full(loss.shape[1:], _TOGETHER, device=loss.device)
        for _ in range(rounds):
            active = budget.nonzero()[:, 0]
            if not len(active):
                break
            old, before = values[:, active], kept[:, active]
            mask = self.proposed(old, before, active, budget[active], least[:, active])
            new = self.fitted(old * mask, mask, active)
            cost = self.loss(new, active)
            better = cost < loss[:, active]
            values[:, active] = torch.where(better[..., None, None], new, old)
            kept[:, active] = torch.where(better[..., None, None], mask, before)
            loss[:, active] = torch.where(better, cost, loss[:, active])
            moved = ((mask != before).any(-1).any(-1) & better).any(0)
            budget[active] = torch.where(moved, budget[active], budget[active] // 2)
        return values, kept

    def loss(self, values: Tensor, groups: Tensor | slice) -> Tensor:
        """Return the loss ``(parts, groups)`` of ``values``, those of ``groups``."""
        wanted = self.wanted[:, groups]
        each = loss_of(values.flatten(1, 2), self.hessian, wanted.flatten(1, 2))
        return each.unflatten(1, values.shape[1:3]).sum((-1, -2))

    def fitted(self, values: Tensor, mask: Tensor, groups: Tensor) -> Tensor:
        """Return ``values`` fitted anew on ``mask``."""
        wanted = self.wanted[:, groups].flatten(1, 2)
        found = refit(values.flatten(1, 2), mask.flatten(1, 2), self.hessian, wanted, _FIT)
        return found.unflatten(1, values.shape[1:3])

    def proposed(
        self, values: Tensor, kept: Tensor, groups: Tensor, budget: Tensor, least: Tensor
    ) -> Tensor:
        """Return the mask of ``groups`` after the best ``budget`` swaps of each."""
        pools = -(-values.shape[-1] // self.layout.pool)
        row = values.shape[0] * values.shape[2] * pools * self.layout.pool * _LEAVING
        size = max(1, _ELEMENTS // row)
        parts = [
            self._proposed(*some)
            for some in zip(
                values.split(size, 1),
                kept.split(size, 1),
                groups.split(size),
                budget.split(size),
                least.split(size, 1),
                strict=True,
            )
        ]
        return torch.cat(parts, 1)

    def _proposed(
        self, values: Tensor, kept: Tensor, groups: Tensor, budget: Tensor, least: Tensor
    ) -> Tensor:
        units = self.layout.units(kept)
        flags = units.any(-1).any(2)
        change, leaving, coming = self._swaps(values, flags, groups)
        change, order = change.topk(min(_TOGETHER, change.shape[-1]), largest=False)
        leaving, coming = leaving.gather(-1, order), coming.gather(-1, order)
        taken = (coming[..., None] == coming[..., None, :]).tril(-1).any(-1)
        within = torch.arange(change.shape[-1], device=change.device) < budget[:, None]
        made = (change < -least[..., None]) & within & ~taken
        plain = flags.flatten(2)
        added = torch.zeros_like(plain, dtype=torch.uint8)
        added = added.scatter_reduce(-1, coming, made.to(added), "amax").bool()
        after = plain.scatter(-1, leaving, plain.gather(-1, leaving) & ~made) | added
        moved = (after != plain).view_as(flags)[:, :, None, ..., None]
        after = after.view_as(flags)[:, :, None, ..., None]
        return self.layout.columns(torch.where(moved, after, units))

    def _swaps(self, values: Tensor, kept: Tensor, groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return changes of the loss, units that leave and units that come, all (p, groups, any).

        ``kept`` flags units. Of each that leaves, the best one that may come in its place.
        """
        rows = values.flatten(1, 2) @ self.hessian
        slope = self.layout.units(self.wanted[:, groups] - rows.unflatten(1, values.shape[1:3]))
        values, free = self.layout.units(values), self.open[:, groups]
        alone = torch.einsum("pghqux,pquxy,pghquy->pgqu", values, self.own, values)
        alone = (alone + 2 * (values * slope).sum(-1).sum(2)).masked_fill(~(free & kept), torch.inf)
        cost, leaving = alone.topk(min(_LEAVING, alone.shape[-1]), largest=False)
        index = leaving[:, :, None, ..., None]
        left = values.gather(4, index.expand(-1, -1, values.shape[2], -1, -1, values.shape[-1]))
        parts, pools = (torch.arange(n, device=leaving.device) for n in self.near.shape[:2])
        near = self.near[parts[:, None, None, None], pools[:, None], leaving]
        slope = torch.einsum("pquyz,pghquz->pghquy", self.white, slope).flatten(-2)
        slope = slope[..., None, :] + torch.einsum("pghqsx,pgqsxy->pghqsy", left, near)
        gain = slope.square().sum(2).unflatten(-1, self.own.shape[2:4]).sum(-1)
        change = cost[..., None] - gain
        change, coming = change.masked_fill(~(free & ~kept)[..., None, :], torch.inf).min(-1)
        first = torch.arange(kept.shape[2], device=kept.device)[:, None] * kept.shape[3]
        return change.flatten(2), (leaving + first).flatten(2), (coming + first).flatten(2)


def _diagonal_blocks(matrices: Tensor, size: int) -> Tensor:
    """Return the blocks on the diagonals of ``(parts, pools, n, n)``: ``(..., n / size, s, s)``."""
    parted = matrices.unflatten(-1, (-1, size)).unflatten(-3, (-1, size))
    return parted.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
