"""Swaps: the best pair is found, nothing gets worse, and masks keep their pattern."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.pruning.compensation import swaps
from tvm_sparse.pruning.compensation.swaps import loss_of, swapped
from tvm_sparse.pruning.compensation.update import refit


def problem(seed, rows, columns, parts=1):
    """A Hessian of correlated columns and the weights that fit it without a mask."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(parts, 4 * columns, columns, generator=generator, dtype=torch.float64)
    x = x @ (torch.eye(columns) + 0.3 * torch.randn(columns, columns, generator=generator)).double()
    hessian = x.mT @ x / x.shape[1] + 0.01 * torch.eye(columns)
    weight = torch.randn(parts, rows, columns, generator=generator, dtype=torch.float64)
    return weight, hessian, weight @ hessian


def better(found, mask, *problem, **options):
    """Swap with all weights alive."""
    return swapped(found, mask, *problem, alive=torch.ones_like(mask), **options)


def best_value(mask, hessian, wanted):
    """Return the least loss of one row with weights on ``mask``."""
    h, w = hessian[mask][:, mask], wanted[:, mask]
    return float(-(w @ torch.linalg.solve(h, w.T)))


EXCHANGES = [
    Exchange(pool=4),
    Exchange(),
    Exchange(width=2),
    Exchange(height=3, width=2),
    Exchange(height=3, pool=4),
]
ALL = [*EXCHANGES, Exchange(2, 16, pool=16), Exchange(16), Exchange(4, width=4)]


@pytest.mark.parametrize("exchange", EXCHANGES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_the_best_swap_is_found(exchange, seed):
    """Of one group of rows, against the change that each pair makes if only its columns adapt."""
    rows, columns = exchange.height, 8
    weight, hessian, wanted = problem(seed, rows, columns)
    layout = swaps._Layout(exchange, rows, columns)
    units = columns // exchange.width
    kept = torch.arange(units) % 2 == 0
    mask = kept.repeat_interleave(exchange.width).expand(1, rows, columns)
    found = refit(weight, mask, hessian, wanted, columns)
    search = swaps._Search(layout, hessian, wanted, layout.open_units(mask, torch.ones_like(mask)))
    flags = layout.units(layout.rows(mask)).any(-1).any(2)
    change, leaving, coming = search._swaps(layout.rows(found.float()), flags, torch.tensor([0]))
    place = int(change.argmin())
    got = float(change.min()), int(leaving.flatten()[place]), int(coming.flatten()[place])

    pool = (exchange.pool or columns) // exchange.width
    wide = [list(range(u * exchange.width, (u + 1) * exchange.width)) for u in range(units)]
    before, best = float(loss_of(found, hessian, wanted).sum()), (np.inf, -1, -1)
    for out, new in itertools.product(range(units), repeat=2):
        if kept[out] and not kept[new] and out // pool == new // pool:
            value = found.clone()
            value[..., wide[out]] = 0
            slope = (wanted - value @ hessian)[0][:, wide[new]]
            value[0][:, wide[new]] = torch.linalg.solve(
                hessian[0][wide[new]][:, wide[new]], slope.T
            ).T
            best = min(best, (float(loss_of(value, hessian, wanted).sum()) - before, out, new))
    assert got[0] == pytest.approx(best[0], rel=1e-3)
    assert got[1:] == best[1:]


@settings(max_examples=40)
@given(
    rows=st.integers(1, 35),
    columns=st.integers(1, 19),
    parts=st.integers(1, 3),
    exchange=st.sampled_from(
        [*EXCHANGES, Exchange(2, 16, pool=16), Exchange(16), Exchange(4, width=4)]
    ),
    kept=st.floats(0, 1),
    seed=st.integers(0, 9),
)
def test_no_group_gets_worse_and_counts_stay(rows, columns, parts, exchange, kept, seed):
    weight, hessian, wanted = problem(seed, rows, columns, parts)
    layout = swaps._Layout(exchange, rows, columns)
    generator = torch.Generator().manual_seed(seed)
    shape = layout.units(layout.rows(torch.ones(parts, rows, columns))).shape
    flags = torch.rand(shape[0], shape[1], 1, *shape[3:5], 1, generator=generator) < kept
    mask = layout.whole(layout.columns(flags.expand(shape)))
    found = refit(weight, mask, hessian, wanted, 5)
    new, new_mask = better(found, mask, hessian, wanted, exchange, rounds=4, steps=5)
    assert ((new != 0) <= new_mask).all()
    before, after = (layout.rows(loss_of(v, hessian, wanted)).sum(2) for v in (found, new))
    assert (after <= before).all()
    units = [layout.units(layout.rows(m)) for m in (mask, new_mask)]
    assert torch.equal(
        *(u.sum((4, 5)) if exchange.height == 1 else u.any(2).sum((3, 4)) for u in units)
    )
    real = layout.units(layout.rows(torch.ones_like(mask)))
    same = (units[1] | ~real).all(-1).all(2) | ~units[1].any(-1).any(2)
    assert same.all() or not layout.parted(parts)


def test_swaps_lower_what_the_best_weights_on_the_mask_lose():
    weight, hessian, wanted = problem(1, 1, 16)
    mask = torch.from_numpy(Balanced(8, 2).project(np.abs(weight[0].numpy())))[None]
    found = refit(weight, mask, hessian, wanted, 30)
    new, new_mask = better(found, mask, hessian, wanted, Exchange(pool=8), rounds=50)
    first, last = (best_value(m.flatten(), hessian[0], wanted[0]) for m in (mask, new_mask))
    assert float(loss_of(new, hessian, wanted)) == pytest.approx(last, rel=1e-6)
    assert last < first


def test_pruned_weights_and_other_blocks_stay():
    weight, hessian, wanted = problem(2, 8, 16)
    coarse = torch.zeros(2, 4, dtype=torch.bool)
    coarse[0, ::2], coarse[1, 1] = True, True
    allowed = coarse.repeat_interleave(4, 0).repeat_interleave(4, 1)[None]
    mask = (torch.arange(16) % 3 == 0) & allowed
    found = refit(weight, mask, hessian, wanted, 16)
    alive = torch.ones_like(mask)
    alive[..., 1] = False
    exchange = Exchange(pool=8, blocks=(4, 4))
    _, new_mask = swapped(found, mask, hessian, wanted, exchange, alive=alive)
    assert not torch.equal(new_mask, mask)
    assert (new_mask <= allowed).all()
    assert not new_mask[..., 1].any()


def test_rows_of_parts_that_cut_a_unit_are_left_as_they_are():
    weight, hessian, wanted = problem(0, 6, 8, parts=2)
    mask = (torch.arange(8) % 2 == 0).expand(2, 6, 8)
    found = refit(weight, mask, hessian, wanted, 8)
    new, new_mask = better(found, mask, hessian, wanted, Block(4, 2).exchange)
    assert new is found
    assert new_mask is mask


@pytest.mark.parametrize(
    "extents", [{"height": 0}, {"width": 3, "pool": 4}, {"pool": 0, "width": 2}]
)
def test_units_without_extent_are_refused(extents):
    with pytest.raises(InputError, match="exchange"):
        Exchange(**extents)
