"""CIFAR-10 and CIFAR-100 from the folder a user has, in the binary format (no pickles)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tvm_sparse.demo.training import Images, Labels, Split
from tvm_sparse.errors import InputError

PIXELS = 3 * 32 * 32
MEAN = np.array([0.4914, 0.4822, 0.4465], np.float32).reshape(3, 1, 1)
DEVIATION = np.array([0.2470, 0.2435, 0.2616], np.float32).reshape(3, 1, 1)
"""Of CIFAR-10's training images; CIFAR-100's differ in the second digit."""

_FILES = {
    1: ([f"data_batch_{number}.bin" for number in range(1, 6)], ["test_batch.bin"]),
    2: (["train.bin"], ["test.bin"]),
}
"""Training and test files by the number of label bytes a record: CIFAR-10, CIFAR-100."""


def load_cifar(folder: str | Path) -> Split:
    """Read CIFAR-10 or CIFAR-100 (fine labels) in the *binary version* of its authors.

    Parameters
    ----------
    folder
        Holds ``data_batch_1.bin`` ... ``test_batch.bin``, or ``train.bin`` and ``test.bin``.

    Returns
    -------
    Split
        Images ``(n, 3, 32, 32)`` float32, normalised by channel; labels ``(n,)`` int64.

    Raises
    ------
    InputError
        If the files are missing or their size does not fit the format.
    """
    folder = Path(folder)
    for labels, (train, test) in _FILES.items():
        if (folder / test[0]).is_file():
            return Split(*_read(folder, train, labels), *_read(folder, test, labels))
    raise InputError(
        str(folder),
        "holds neither test_batch.bin nor test.bin",
        "the extracted binary version of CIFAR-10 or CIFAR-100",
        "get it from https://www.cs.toronto.edu/~kriz/cifar.html",
    )


def augmented(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return ``images`` ``(n, 3, 32, 32)`` shifted by up to 4 pixels, half of them mirrored."""
    count, _, height, width = images.shape
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    shift = torch.randint(9, (2, count), generator=generator)
    rows = shift[0, :, None] + torch.arange(height)
    columns = shift[1, :, None] + torch.arange(width)
    mirrored = torch.rand(count, generator=generator) < 0.5
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    index = torch.arange(count)[:, None, None]
    return padded.permute(0, 2, 3, 1)[index, rows[:, :, None], columns[:, None, :]].permute(
        0, 3, 1, 2
    )


def _read(folder: Path, names: list[str], labels: int) -> tuple[Images, Labels]:
    parts = []
    for name in names:
        try:
            data = np.fromfile(folder / name, np.uint8)
        except OSError as error:
            raise InputError(str(folder / name), f"cannot be read ({error.strerror})") from error
        if not len(data) or len(data) % (labels + PIXELS):
            raise InputError(
                str(folder / name),
                f"has {len(data)} bytes",
                f"records of {labels + PIXELS} bytes",
                "extract the archive again",
            )
        parts.append(data.reshape(-1, labels + PIXELS))
    records = np.concatenate(parts)
    pixels = records[:, labels:].reshape(-1, 3, 32, 32).astype(np.float32) / np.float32(255)
    images: Images = ((pixels - MEAN) / DEVIATION).astype(np.float32)
    return images, records[:, labels - 1].astype(np.int64)
