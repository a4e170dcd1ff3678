"""Calibration pictures for networks whose users have none at hand: fractals.

Kataoka et al., "Pre-training without natural images" (2020), learn from fractals of iterated
functions. The maps are drawn as in Anderson and Farrell, "Improving fractal pre-training" (2022,
section 3.2): by the singular values of their matrices, whose weighted sum is bounded, so that most
pictures are neither empty nor full.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tvm_sparse.errors import InputError

CHAINS, STEPS, WARM = 512, 200, 20
"""Points that walk at once, their steps, and steps that are not drawn."""


def fractal_pictures(count: int, size: int | tuple[int, int] = 224, *, seed: int = 0) -> Tensor:
    """Return pictures for :func:`.one_shot` where there are no real ones.

    Each has two to four coloured fractals on a ground of clouds. Real pictures of the kind that the
    network will see keep more.

    Parameters
    ----------
    count
        How many.
    size
        Height and width in pixels, or both as one number.
    seed
        The same one gives the same pictures.

    Returns
    -------
    float32 (count, 3, height, width), from 0 to 1. Scale and shift them as the network wants.

    Raises
    ------
    InputError
        ``count`` or an extent is less than 1.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if min(count, height, width) < 1:
        raise InputError("fractal_pictures", f"{count} of {height} x {width}", "1 and more")
    draw = np.random.default_rng(seed)
    return torch.from_numpy(np.stack([_picture(height, width, draw) for _ in range(count)]))


def _picture(height: int, width: int, draw: np.random.Generator) -> np.ndarray:
    """Return one picture (3, height, width)."""
    picture = _clouds(height, width, draw)
    for _ in range(draw.integers(2, 5)):
        cover, colour = _fractal(height, width, draw)
        picture = picture * (1 - cover) + colour * cover
    return picture.astype(np.float32)


def _clouds(height: int, width: int, draw: np.random.Generator) -> np.ndarray:
    """Return noise whose power falls with frequency, as that of photographs does."""
    y, x = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    grey, colour = (draw.standard_normal((n, height, width)) for n in (1, 3))
    spectrum = np.fft.rfft2(grey + 0.4 * colour)
    spectrum /= np.maximum(np.hypot(y, x), 1 / max(height, width)) ** draw.uniform(0.8, 1.6)
    noise = np.fft.irfft2(spectrum, s=(height, width))
    scaled = noise / np.maximum(noise.std((1, 2), keepdims=True), 1e-9)
    ground = draw.uniform(0.25, 0.75) + draw.uniform(-0.15, 0.15, (3, 1, 1))
    return np.clip(ground + 0.15 * scaled, 0, 1)


def _fractal(height: int, width: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return how much a fractal covers (height, width), and its colours (3, height, width)."""
    matrices, shifts = _maps(draw)
    palette = draw.uniform(0, 1, (len(matrices), 3))
    weights = np.abs(np.linalg.det(matrices)) + 0.05
    points, colours = draw.uniform(-1, 1, (CHAINS, 2)), draw.uniform(0, 1, (CHAINS, 3))
    places, tints = [], []
    for step in range(STEPS):
        chosen = draw.choice(len(matrices), CHAINS, p=weights / weights.sum())
        points = np.einsum("pij,pj->pi", matrices[chosen], points) + shifts[chosen]
        colours = (colours + palette[chosen]) / 2
        if step >= WARM:
            places.append(points)
            tints.append(colours)
    where, tint = np.concatenate(places), np.concatenate(tints)
    low, high = np.percentile(where, 1, axis=0), np.percentile(where, 99, axis=0)
    extents = draw.uniform(0.3, 1.0) * np.array([height, width])
    offset = draw.uniform(0, 1, 2) * (np.array([height, width]) - extents)
    cells = (offset + (where - low) / np.maximum(high - low, 1e-6) * extents).astype(int)
    inside = ((cells >= 0) & (cells < [height, width])).all(1)
    flat = cells[inside] @ [width, 1]
    hits = np.bincount(flat, minlength=height * width)
    sums = [np.bincount(flat, tint[inside, c], height * width) for c in range(3)]
    cover = np.minimum(hits / 2, 1).reshape(height, width)
    return cover, (np.stack(sums) / np.maximum(hits, 1)).reshape(3, height, width)


def _maps(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrices (maps, 2, 2) and shifts (maps, 2) of an iterated function system."""
    count = draw.integers(2, 7)
    total = draw.uniform(5 + count, 6 + count) / 2
    longer, shorter = np.sort(draw.uniform(0.05, 1, (2, count)), 0)[::-1]
    scale = total / (longer + 2 * shorter).sum()
    values = np.minimum(np.stack([longer, shorter]) * scale, 0.95)
    turns = draw.uniform(0, 2 * np.pi, (2, count))
    signs = draw.choice([-1, 1], (2, count))
    left, right = (_rotations(angles) for angles in turns)
    return (left * (values * signs).T[:, None]) @ right, draw.uniform(-1, 1, (count, 2))


def _rotations(angles: np.ndarray) -> np.ndarray:
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
