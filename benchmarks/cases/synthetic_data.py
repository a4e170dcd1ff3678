"""Inputs with known labels, made here: lines of text, pages, sound of speech and of tones."""

from __future__ import annotations

import random
import string

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SPEECH_RATE = 16000


def words(draw: random.Random, count: int) -> str:
    """Return ``count`` made words of Latin letters and digits."""
    made = (
        "".join(draw.choices(string.ascii_letters + string.digits, k=draw.randint(3, 8)))
        for _ in range(count)
    )
    return " ".join(made)


def line(text: str, height: int, width: int, *, size: int = 0, inverse: bool = False) -> Image:
    """Return one line of dark text on white, or the other way."""
    ink, paper = (255, 0) if inverse else (0, 255)
    picture = Image.new("L", (width, height), paper)
    font = ImageFont.load_default(size or int(height * 0.6))
    ImageDraw.Draw(picture).text((8, height * 0.12), text, fill=ink, font=font)
    return picture


def page(draw: random.Random, height: int, width: int) -> tuple[Image, list[str]]:
    """Return a picture of lines of text in several sizes, and the lines."""
    picture, lines = Image.new("L", (width, height), 255), list[str]()
    pen, top = ImageDraw.Draw(picture), 12
    while top < height - 40:
        size = draw.choice((14, 18, 24, 32))
        left = draw.randint(8, width // 3)
        font = ImageFont.load_default(size)
        lines.append(words(draw, draw.randint(1, 4)))
        pen.text((left, top), lines[-1], fill=draw.randint(0, 90), font=font)
        top += size + draw.randint(8, 30)
    return picture, lines


def tensor(picture: Image) -> np.ndarray:
    """Return a picture as ``(1, 3, height, width)`` float32 in ``[-1, 1]``."""
    grey = np.asarray(picture, np.float32) / 127.5 - 1
    return np.ascontiguousarray(np.broadcast_to(grey, (1, 3, *grey.shape)))


def speech(draw: np.random.Generator, seconds: float, rate: int = SPEECH_RATE) -> np.ndarray:
    """Return vowels of a voice with pauses and noise: pulses through three resonances, float32.

    The formants are those of vowels as Peterson and Barney (1952) measured them, for men.
    """
    parts, left = [], int(seconds * rate)
    while left > 0:
        count = min(left, int(draw.uniform(0.1, 0.4) * rate))
        left -= count
        if draw.random() < 0.3:
            parts.append(np.zeros(count))
            continue
        pitch = draw.uniform(90, 220) * np.linspace(1, draw.uniform(0.8, 1.2), count)
        phase = np.cumsum(pitch / rate)
        pulses = np.diff(np.floor(phase), prepend=0.0)
        for formant in VOWELS[draw.integers(len(VOWELS))]:
            pulses = _resonance(pulses, formant, rate)
        parts.append(pulses / max(np.abs(pulses).max(), 1e-9) * draw.uniform(0.2, 0.6))
    sound = np.concatenate(parts)
    return np.float32(sound + draw.standard_normal(len(sound)) * 0.003)


VOWELS = (
    (270, 2290, 3010),
    (530, 1840, 2480),
    (730, 1090, 2440),
    (570, 840, 2410),
    (300, 870, 2240),
)
"""First three resonances of vowels in Hz."""


def _resonance(sound: np.ndarray, frequency: float, rate: int, width: float = 90) -> np.ndarray:
    from scipy.signal import lfilter

    radius = np.exp(-np.pi * width / rate)
    turn = 2 * radius * np.cos(2 * np.pi * frequency / rate)
    return lfilter([1 - turn + radius**2], [1, -turn, radius**2], sound)


def tone(frequency: float, count: int, rate: int, draw: np.random.Generator) -> np.ndarray:
    """Return a tone with eight falling overtones and a little noise, float32."""
    time = np.arange(count) / rate
    overtones = [n for n in range(1, 9) if n * frequency < rate / 2]
    sound = sum(
        np.sin(2 * np.pi * (n * frequency * time + draw.random())) / n**1.2 for n in overtones
    )
    return np.float32(0.2 * sound + draw.standard_normal(count) * 0.002)
