"""The layers of the zoo that multiply weights: every form, five shapes of each."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from benchmarks.cases.layer_modules import (
    Case,
    First,
    Pairs,
    Tied,
    Transposed,
    Weighted,
    layers,
    tables,
)


def contractions() -> Iterator[Case]:
    """Yield the layers that sum over columns and taps."""
    for form in FORMS:
        yield from form()


def _linears() -> Iterator[Case]:
    """Yield linear layers on one row."""
    yield from layers(
        "Linear, one row",
        nn.Linear,
        ((1024, 1024), (1, 1024)),
        ((4096, 1024), (1, 4096)),
        ((768, 3072), (1, 768)),
        ((512, 1000), (1, 512)),
        ((256, 250), (1, 256)),
    )


def _convolutions() -> Iterator[Case]:
    """Yield convolutions in one dimension."""
    yield from layers(
        "Conv1d",
        nn.Conv1d,
        ((64, 64, 3), (1, 64, 4000)),
        ((512, 512, 3, 2), (1, 512, 800)),
        ((1, 512, 10, 5), (1, 1, 16000)),
        ((128, 256, 5, 1, 4, 2), (1, 128, 1000)),
        ((80, 384, 3, 1, 1), (1, 80, 3000)),
    )


def _groups() -> Iterator[Case]:
    """Yield convolutions in groups."""
    yield from layers(
        "Conv1d, groups",
        nn.Conv1d,
        ((256, 256, 31, 1, 15, 1, 256), (1, 256, 400)),
        ((768, 768, 128, 1, 64, 1, 16), (1, 768, 49)),
        ((128, 128, 3, 1, 1, 1, 4), (1, 128, 1000)),
        ((64, 128, 5, 2, 2, 1, 64), (2, 64, 500)),
        ((96, 192, 3, 1, 2, 2, 3), (1, 96, 600)),
    )
    yield from layers(
        "Conv2d, groups",
        nn.Conv2d,
        ((128, 128, 3, 1, 1, 1, 32), (1, 128, 56, 56)),
        ((512, 512, 3, 1, 1, 1, 32), (1, 512, 14, 14)),
        ((240, 60, 1, 1, 0, 1, 3), (1, 240, 28, 28)),
        ((320, 320, 3, 2, 1, 1, 20), (1, 320, 28, 28)),
        ((64, 96, 3, 1, 1, 1, 2), (1, 64, 28, 28)),
    )
    yield from layers(
        "Depthwise, multiplier > 1",
        nn.Conv2d,
        ((32, 64, 3, 1, 1, 1, 32), (1, 32, 56, 56)),
        ((64, 128, 3, 2, 1, 1, 64), (1, 64, 56, 56)),
        ((128, 512, 3, 1, 1, 1, 128), (1, 128, 14, 14)),
        ((48, 144, 5, 1, 2, 1, 48), (1, 48, 28, 28)),
        ((3, 24, 3, 1, 1, 1, 3), (1, 3, 112, 112)),
    )


def _volumes() -> Iterator[Case]:
    """Yield convolutions of volumes."""
    yield from layers(
        "Conv3d",
        nn.Conv3d,
        ((32, 32, 3, 1, 1), (1, 32, 8, 28, 28)),
        ((3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3)), (1, 3, 8, 56, 56)),
        ((64, 144, (1, 3, 3), 1, (0, 1, 1)), (1, 64, 4, 28, 28)),
        ((144, 64, (3, 1, 1), 1, (1, 0, 0)), (1, 144, 4, 28, 28)),
        ((64, 64, 3, 2, 1, 1, 4), (1, 64, 8, 16, 16)),
    )


def _transposed() -> Iterator[Case]:
    """Yield transposed convolutions."""
    yield from layers(
        "ConvTranspose1d",
        nn.ConvTranspose1d,
        ((128, 64, 4, 2, 1), (1, 128, 500)),
        ((512, 256, 16, 8, 4), (1, 512, 32)),
        ((64, 64, 3), (1, 64, 1000)),
        ((256, 128, 8, 4, 2), (1, 256, 128)),
        ((64, 32, 5, 3, 1, 1), (2, 64, 200)),
    )
    yield from layers(
        "ConvTranspose2d",
        nn.ConvTranspose2d,
        ((128, 64, 4, 2, 1), (1, 128, 16, 16)),
        ((256, 128, 2, 2), (1, 256, 28, 28)),
        ((64, 64, 3, 2, 1, 1), (1, 64, 28, 28)),
        ((64, 32, 3, 1, 1), (1, 64, 32, 32)),
        ((64, 64, 4, 2, 1, 0, 64), (1, 64, 28, 28)),
    )
    yield from layers(
        "ConvTranspose3d",
        nn.ConvTranspose3d,
        ((32, 16, 4, 2, 1), (1, 32, 4, 8, 8)),
        ((64, 32, 2, 2), (1, 64, 4, 14, 14)),
        ((32, 32, 3, 1, 1), (1, 32, 4, 14, 14)),
        ((32, 16, 3, 2, 1, 1), (1, 32, 4, 8, 8)),
        ((16, 16, (1, 4, 4), (1, 2, 2), (0, 1, 1)), (1, 16, 8, 14, 14)),
    )


def _products() -> Iterator[Case]:
    """Yield products of other forms."""
    yield from layers(
        "Bilinear",
        Pairs,
        ((64, 64), (16, 64)),
        ((128, 32), (8, 128)),
        ((32, 128), (64, 32)),
        ((100, 10), (10, 100)),
        ((256, 64), (1, 256)),
    )
    for label, equation, weight, shape in (
        ("bld,hde->blhe", "bld,hde->blhe", (12, 768, 64), (1, 128, 768)),
        ("bhlk,hkd->bld", "bhlk,hkd->bld", (12, 64, 768), (1, 12, 128, 64)),
        ("gnk,gkm->gnm", "gnk,gkm->gnm", (8, 128, 256), (8, 64, 128)),
        ("nk,mk->nm", "nk,mk->nm", (512, 512), (64, 512)),
        ("bchw,cd->bdhw", "bchw,cd->bdhw", (64, 128), (1, 64, 28, 28)),
    ):
        yield Case(
            "einsum",
            label,
            lambda e=equation, w=weight: Weighted(lambda x, v: torch.einsum(e, x, v), *w),
            shape,
        )
    for weight, shape in (
        ((8, 128, 256), (8, 64, 128)),
        ((16, 64, 64), (16, 196, 64)),
        ((4, 512, 512), (4, 1, 512)),
        ((32, 32, 100), (32, 10, 32)),
        ((2, 256, 1024), (2, 100, 256)),
    ):
        label = f"{weight} on {'x'.join(map(str, shape))}"
        yield Case("bmm", label, lambda w=weight: Weighted(torch.bmm, *w), shape)


def _transformers() -> Iterator[Case]:
    """Yield linear layers as transformers stores them."""
    yield from layers(
        "Conv1D (Hugging Face)",
        Transposed,
        ((768, 2304), (1, 128, 768)),
        ((768, 768), (1, 1, 768)),
        ((768, 3072), (1, 32, 768)),
        ((3072, 768), (1, 32, 3072)),
        ((1024, 4096), (1, 1, 1024)),
    )


def _recurrent() -> Iterator[Case]:
    """Yield recurrent layers."""
    for name, layer in (("GRU", nn.GRU), ("RNN", nn.RNN), ("LSTM", nn.LSTM)):
        yield from layers(
            name,
            lambda *a, layer=layer: First(layer(*a, batch_first=True)),
            ((128, 256), (1, 32, 128)),
            ((64, 64), (1, 50, 64)),
            ((256, 512), (1, 16, 256)),
            ((80, 128), (4, 20, 80)),
            ((40, 100), (1, 30, 40)),
        )


def _tied() -> Iterator[Case]:
    """Yield tables that are weights, too."""
    yield from tables(
        "tied embedding",
        Tied,
        ((8000, 256), (1, 16)),
        ((10000, 128), (1, 1)),
        ((1000, 512), (2, 32)),
        ((5000, 384), (1, 64)),
        ((2000, 64), (1, 8)),
    )


FORMS = (
    _linears,
    _convolutions,
    _groups,
    _volumes,
    _transposed,
    _products,
    _transformers,
    _recurrent,
    _tied,
)
