"""Weights packed as the kernels read them; works on tensors of any device.

A piece is what one step of one tile of features copies, so packed weights are
``[tiles of features, steps, bytes]``. The comments in ``kernels/*.cuh`` say what a piece holds.
"""

from __future__ import annotations

import torch

BANK = 32
"""Columns of which a balanced weight keeps the same number everywhere."""


def tiles(weight: torch.Tensor, features: int) -> torch.Tensor:
    """Return ``[M, K]`` fp16 as ``[M / features, K / 64, bytes]``, tiles in the swizzle."""
    m, k = weight.shape
    cut = weight.reshape(m // features, features, k // 64, 64).transpose(1, 2)
    return _bytes(_swizzled(cut)).reshape(m // features, k // 64, -1)


def pairs(places: torch.Tensor, values: torch.Tensor, features: int) -> torch.Tensor:
    """Return a balanced weight, ``[M, banks, keep]`` both, as pairs of columns by lanes."""
    m, banks, keep = values.shape
    full = torch.zeros(m, banks, BANK, dtype=torch.bool, device=values.device)
    kept = full.scatter(2, places, True).reshape(m, banks, 4, 4, 2).any(-1)
    weight = dense(places, values, BANK).reshape(m, banks, BANK)
    words = weight.view(torch.int32).reshape(m, banks, 4, 4)
    # The lane q of four holds pair q of each eight columns: 4 registers of a bank.
    kept, words = (t.transpose(2, 3).reshape(m, banks, 16) for t in (kept, words))
    order = torch.where(kept, 0, 16) + torch.arange(16, device=values.device)
    lists = words.gather(-1, order.argsort(-1)[..., :keep])
    nibbles = _bits(kept.reshape(m, banks, 4, 4), 1)
    # Lists are ordered by bank and half of the 16 features, lanes by feature and q.
    shape = (m // features, features // 16, 2, 8, banks // 2, 2)
    masks = _bits(nibbles.reshape(*shape, 4).permute(0, 4, 1, 3, 6, 5, 2).flatten(-2), 4)
    by_lists = lists.reshape(*shape, keep).permute(0, 4, 1, 5, 2, 3, 6)
    piece = (m // features, banks // 2, features // 16, -1)
    parts = (_bytes(_low(masks, torch.int16)), _bytes(by_lists))
    return torch.cat([part.reshape(piece) for part in parts], -1).flatten(2)


def scatter(places: torch.Tensor, values: torch.Tensor, features: int) -> torch.Tensor:
    """Return a balanced weight as values and the places that they are stored to."""
    m, banks, keep = values.shape
    row = torch.arange(m, device=values.device)[:, None, None]
    bank = (torch.arange(banks, device=values.device) & 1)[None, :, None]
    swizzled = (bank * BANK + places) ^ ((row & 7) << 3)
    order = _apart(swizzled)
    swizzled, values = swizzled.gather(-1, order), values.gather(-1, order)
    index = torch.zeros(m, banks, 8 if keep == 8 else 4, dtype=torch.uint8, device=values.device)
    index[..., :keep] = swizzled.to(torch.uint8)

    def by_thread(t: torch.Tensor) -> torch.Tensor:
        cut = t.reshape(m // features, features // 64, 64, banks // 2, 2, -1)
        return cut.permute(0, 3, 1, 2, 4, 5).reshape(len(cut), banks // 2, -1, 128, t.shape[-1])

    held = by_thread(values)
    held = held if keep == 8 else held.transpose(3, 4)
    return torch.cat([_bytes(held).flatten(2), by_thread(index).flatten(2)], -1)


def two_four(places: torch.Tensor, values: torch.Tensor, features: int) -> torch.Tensor:
    """Return a 2:4 weight, ``[M, K / 4, 2]`` both, as kept values and metadata."""
    m, fours, _ = values.shape
    steps = fours // 32
    kept = tiles(values.reshape(m, fours * 2), features)
    nibbles = _bits(places, 2).reshape(m // features, -1, 4, 2, 8, steps, 4, 2, 4)
    words = _bits(nibbles, 4)  # tile, group, warp, half of 16, feature, step, product, half
    words = _bits(words.movedim(3, -1), 16).permute(0, 4, 1, 5, 2, 3, 6)
    return torch.cat([kept, _bytes(_low(words, torch.int32)).reshape(*kept.shape[:2], -1)], -1)


def dense(places: torch.Tensor, values: torch.Tensor, bank: int) -> torch.Tensor:
    """Return the weight ``[M, K]`` that keeps ``values`` at ``places`` of each ``bank``."""
    m, banks, _ = values.shape
    weight = torch.zeros(m, banks, bank, dtype=values.dtype, device=values.device)
    return weight.scatter(2, places, values).reshape(m, banks * bank)


def _apart(places: torch.Tensor) -> torch.Tensor:
    """Return an order of each thread's places in which 32 lanes store to banks far apart.

    Greedy, lane by lane: each slot takes the place whose bank the lanes before use least.
    """
    m, banks, keep = places.shape
    bank = (places >> 1).reshape(m // 16, 16, banks // 2, 2, keep).permute(0, 2, 1, 3, 4)
    bank = bank.reshape(-1, 32, keep)
    load = torch.zeros(len(bank), keep, 32, dtype=torch.int32, device=places.device)
    order = torch.empty_like(bank)
    one = torch.ones(len(bank), 1, dtype=torch.int32, device=places.device)
    for lane in range(32):
        mine = bank[:, lane].contiguous()
        used = torch.zeros_like(mine, dtype=torch.int32)
        for slot in range(keep):
            pick = (load[:, slot].gather(1, mine) + 1000 * used).argmin(1, keepdim=True)
            order[:, lane, slot] = pick[:, 0]
            used.scatter_(1, pick, 1)
            load[:, slot].scatter_add_(1, mine.gather(1, pick), one)
    order = order.reshape(m // 16, banks // 2, 16, 2, keep)
    return order.permute(0, 2, 1, 3, 4).reshape(m, banks, keep)


def _swizzled(matrices: torch.Tensor) -> torch.Tensor:
    """Return ``[..., rows, 64]`` with the 16-byte chunks of each row permuted by its number."""
    rows = matrices.shape[-2]
    cut = matrices.reshape(*matrices.shape[:-1], 8, 8)
    row = torch.arange(rows, device=matrices.device) & 7
    from_chunk = torch.arange(8, device=matrices.device)[None] ^ row[:, None]
    return torch.gather(cut, -2, from_chunk[..., None].expand(cut.shape))


def _bits(values: torch.Tensor, each: int) -> torch.Tensor:
    """Join the last axis into one integer, the first value lowest, so many bits each."""
    shifts = each * torch.arange(values.shape[-1], device=values.device)
    return (values.to(torch.int64) << shifts).sum(-1)


def _low(words: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the low bits of ``words`` in a signed type."""
    size = torch.iinfo(dtype).bits
    return torch.where(words >> (size - 1) > 0, words - (1 << size), words).to(dtype)


def _bytes(values: torch.Tensor) -> torch.Tensor:
    return values.contiguous().view(torch.uint8)
