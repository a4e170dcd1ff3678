"""Spectrograms of sentences that the voices of eSpeak NG say."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.cases.modules.base import Data, Score

RATE, FRAMES = 16000, 160
"""Samples a second, and frames of 10 ms that the encoder of voices reads at once."""

VOICES = 40
TEXTS = (
    "The boy was there when the sun rose, and a rod is used to catch pink salmon.",
    "Kick the ball straight and follow through; help the woman get back to her feet.",
    "A pot of tea helps to pass the evening, and smoky fires lack flame and heat.",
    "The soft cushion broke the fall while the salt breeze came across from the sea.",
)
"""Sentences of the Harvard lists (IEEE, 1969)."""


class Voices(nn.Module):
    """The encoder of Resemblyzer: three LSTM layers, of whose last step a vector is made."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)

    def forward(self, mels: Tensor) -> Tensor:
        """Return vectors (samples, 256) of spectrograms (samples, 160, 40)."""
        _, (hidden, _) = self.lstm(mels)
        return F.normalize(torch.relu(self.linear(hidden[-1])), dim=1)


def voices(places: dict[str, Path]) -> nn.Module:
    weights = places["resemblyzer"] / "resemblyzer" / "pretrained.pt"
    state = torch.load(weights, map_location="cpu")["model_state"]
    model = Voices()
    model.load_state_dict({k: v for k, v in state.items() if k.split(".")[0] in ("lstm", "linear")})
    return model.eval()


def speech(places: dict[str, Path]) -> Data:
    said = _spoken(places["espeakng-loader"])
    names = sorted(said)
    known, strangers = names[:VOICES], names[VOICES : VOICES + 40]
    train = torch.cat([said[name][:-1].flatten(0, 1) for name in known])

    def mixed(seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        chosen = train[torch.randint(len(train), (32,), generator=generator)]
        return chosen * torch.exp(torch.randn(32, 1, 40, generator=generator) * 0.5)

    def judged(voices: list[str]) -> tuple[list[Tensor], Callable[[np.ndarray], Score]]:
        samples = [said[name][-2:].flatten(0, 1) for name in voices]
        who = np.repeat(np.arange(len(voices)), [len(one) for one in samples])
        return list(torch.cat(samples).split(1)), lambda _: lambda found: _recognised(found, who)

    return Data(
        [mixed(seed) for seed in range(4)],
        lambda: (mixed(seed) for seed in range(4, 1 << 30)),
        judged(known),
        judged(strangers),
    )


def _recognised(vectors: np.ndarray, who: np.ndarray) -> float:
    """Return how often two samples of one voice are more alike than two of different voices."""
    first, second = np.triu_indices(len(who), 1)
    alike, same = (vectors @ vectors.T)[first, second], who[first] == who[second]
    others = np.sort(alike[~same])
    return float(np.searchsorted(others, alike[same]).mean() / len(others))


def _spoken(place: Path) -> dict[str, Tensor]:
    """Return spectrograms (texts, parts, 160, 40) of every voice of eSpeak NG."""
    folder = place / "espeakng_loader"
    voices = sorted(p.name for p in (folder / "espeak-ng-data" / "voices" / "!v").iterdir())
    speaker = _Speaker(folder)
    found = {}
    for voice in voices:
        texts = [_spectrogram(speaker.say(text, voice)) for text in TEXTS]
        parts = min(len(text) for text in texts) // FRAMES
        if parts:
            cut = [text[: parts * FRAMES].reshape(parts, FRAMES, 40) for text in texts]
            found[voice] = torch.stack(cut)
    return found


class _Speaker:
    """The library of eSpeak NG, as its C interface has it."""

    def __init__(self, folder: Path) -> None:
        self.library = ctypes.CDLL(str(folder / "libespeak-ng.so"))
        self.rate: int = self.library.espeak_Initialize(2, 0, str(folder).encode(), 0)
        self.samples: list[np.ndarray] = []
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
        )
        self._heard = kind(self._hear)
        self.library.espeak_SetSynthCallback(self._heard)

    def _hear(self, sound: Any, count: int, _: int) -> int:
        if sound and count:
            self.samples.append(np.ctypeslib.as_array(sound, (count,)).copy())
        return 0

    def say(self, text: str, voice: str) -> np.ndarray:
        """Return ``text`` as ``voice`` says it, float32 at 16 kHz."""
        from scipy.signal import resample_poly

        self.samples = []
        self.library.espeak_SetVoiceByName(f"en-us+{voice}".encode())
        data = text.encode()
        self.library.espeak_Synth(data, len(data) + 1, 0, 1, 0, 1, None, None)
        self.library.espeak_Synchronize()
        sound = np.concatenate([np.zeros(1, np.int16), *self.samples]) / 32768
        level = math.gcd(RATE, self.rate)
        return resample_poly(sound, RATE // level, self.rate // level).astype(np.float32)


def _spectrogram(sound: np.ndarray) -> Tensor:
    """Return energies (frames, 40) at mel frequencies, every 10 ms, of sound at -30 dB."""
    louder = sound * 10 ** (-30 / 20) / max(float(np.sqrt(np.mean(sound**2))), 1e-6)
    window = torch.hann_window(400)
    spectrum = torch.stft(
        torch.from_numpy(louder).float(), 400, 160, window=window, return_complex=True
    )
    return (_mel() @ spectrum.abs().square()).T


@cache
def _mel() -> Tensor:
    from transformers.audio_utils import mel_filter_bank

    bank = mel_filter_bank(201, 40, 0.0, 8000.0, RATE, norm="slaney", mel_scale="slaney")
    return torch.from_numpy(np.asarray(bank)).float().T
