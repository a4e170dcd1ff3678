"""ImageNet from the folder a user has: ``train`` and ``val``, a folder of JPEG files a class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from tvm_sparse.errors import InputError

SIZE, RESIZED = 224, 256
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
"""Of ImageNet's training images by channel; published weights expect them."""

_SUFFIXES = (".jpeg", ".jpg", ".png")
_AREA, _RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
Sample = tuple[torch.Tensor, int]


@dataclass(frozen=True)
class ImageNet:
    """Both parts of the data; ``classes`` are the names of the class folders, in label order."""

    train: Images
    val: Images
    classes: tuple[str, ...]


class Images(Dataset[Sample]):
    """Images ``(3, 224, 224)`` float32, normalised, with their labels; decoded when asked for.

    Parameters
    ----------
    files
        Paths with labels.
    augment
        Cut a random part of each image and mirror half of them (training) instead of the middle.
    """

    def __init__(self, files: list[tuple[Path, int]], augment: bool) -> None:
        self.files, self.augment = files, augment
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Draw other parts than in earlier epochs; an epoch that is repeated draws the same."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        path, label = self.files[index]
        image = _decode(path)
        if self.augment:
            random = np.random.default_rng((self.epoch, index))
            pixels = _cut(image, _random_box(image.size, random))
            if random.random() < 0.5:
                pixels = pixels[:, ::-1]
        else:
            pixels = _cut(image, _middle_box(image.size))
        normal = (pixels.astype(np.float32) / np.float32(255) - MEAN) / DEVIATION
        return torch.from_numpy(np.ascontiguousarray(normal.transpose(2, 0, 1))), label


def load_imagenet(folder: str | Path) -> ImageNet:
    """Find the images below ``folder``; none is decoded yet.

    Parameters
    ----------
    folder
        Holds ``train/<class>/*.JPEG`` and ``val/<class>/*.JPEG`` (also ``.jpg`` and ``.png``).
        Labels are the positions of the class names in alphabetical order, as published weights
        of ImageNet count them.

    Raises
    ------
    InputError
        If a folder is missing or empty, or ``val`` holds a class that ``train`` does not.
    """
    folder = Path(folder)
    classes = _classes(folder / "train")
    labels = {name: label for label, name in enumerate(classes)}
    for name in _classes(folder / "val"):
        if name not in labels:
            raise InputError(str(folder / "val" / name), "is no class of train", "the same classes")
    parts = [_files(folder / part, labels) for part in ("train", "val")]
    return ImageNet(Images(parts[0], augment=True), Images(parts[1], augment=False), classes)


def _classes(folder: Path) -> tuple[str, ...]:
    found = sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
    if not found:
        raise InputError(
            str(folder),
            "holds no class folders" if folder.is_dir() else "is missing",
            "a folder for each class (n01440764, ...)",
            "extract the archives, and sort validation images into folders by their labels",
        )
    return tuple(found)


def _files(folder: Path, labels: dict[str, int]) -> list[tuple[Path, int]]:
    found = [
        (path, label)
        for name, label in labels.items()
        for path in sorted((folder / name).glob("*"))
        if path.suffix.lower() in _SUFFIXES
    ]
    if not found:
        raise InputError(str(folder), "holds no images", ", ".join(_SUFFIXES))
    return found


def _decode(path: Path) -> Any:
    """Return a Pillow image in RGB."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "ImageNet", "Pillow is not installed", "it", "pip install pillow"
        ) from error
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except OSError as error:
        raise InputError(str(path), f"is no image ({error})") from error


def _cut(image: Any, box: tuple[float, float, float, float]) -> np.ndarray:
    """Return the part ``box`` (left, top, right, bottom) as ``(224, 224, 3)`` uint8."""
    from PIL import Image

    return np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box))


def _middle_box(size: tuple[int, int]) -> tuple[float, float, float, float]:
    """Return what is left when the short side becomes 256 and the middle 224 are cut out."""
    width, height = size
    side = min(width, height) * SIZE / RESIZED
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _random_box(
    size: tuple[int, int], random: np.random.Generator
) -> tuple[float, float, float, float]:
    """Return 8 to 100 % of the area with a ratio of 3:4 to 4:3; the middle if none fits."""
    width, height = size
    for _ in range(10):
        area = width * height * random.uniform(*_AREA)
        ratio = math.exp(random.uniform(*np.log(_RATIO)))
        wide, high = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if wide <= width and high <= height:
            left, top = random.uniform(0, width - wide), random.uniform(0, height - high)
            return left, top, left + wide, top + high
    return _middle_box(size)
