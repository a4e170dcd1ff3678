"""Few channels move behind the lines of planes, whose extents may be open, with borders around."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.emit import seen, unravel
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.tensors.borders import Borders
from tvm_sparse.ops.transpose import LANES, interleaved


def channels_behind(x: te.Tensor, shape: Sequence[Any], borders: Borders) -> te.Tensor:
    """Return ``x`` with its channels last, and with ``borders`` around the spatial axes.

    ``x`` has ``shape``, ``(images, channels, *spatial)``, whatever its axes. Channels are static
    and fewer than 16; all else may be open. Threads share the lines of an image. Sixteen pixels of
    all channels are loaded together, and stored side by side; the last ones of a line begin
    earlier. Lines that are shorter move pixel by pixel.
    """
    images, channels = shape[:2]
    lines = _Lines(tuple(shape), borders)

    def emit(inputs: Any, outputs: Any) -> Any:
        high, wide = borders.whole[:-1], borders.whole[-1]
        with IRBuilder() as builder, T.serial(0, *int64((images,))) as image:
            with T.parallel(0, *int64((math.prod(high),))) as line:
                source = seen(inputs[0], shape)
                result = seen(outputs[0], (images, *high, wide * channels))
                lines.move(source, result, image, unravel(line, high))
        return builder.get()

    return te.extern([[images, *borders.whole, channels]], [x], emit, name="channels_behind")


@dataclass(frozen=True)
class _Lines:
    """Lines of a plane: the last spatial axis; ``shape`` is ``(images, channels, *spatial)``."""

    shape: tuple[Any, ...]
    borders: Borders

    def move(self, source: Any, result: Any, image: Any, line: list[Any]) -> None:
        """Emit line ``line`` of the result: a border, or a line of the source between borders."""
        around, channels = self.borders, self.shape[1]
        pixels = [at - before for at, before in zip(line, around.before, strict=False)]
        sides = (0, around.before[-1]), (around.before[-1] + around.inside[-1], around.after[-1])
        inside = [
            tirx.all(pixel >= 0, pixel < extent)
            for pixel, extent in zip(pixels, around.inside, strict=False)
        ]

        def fill(begin: Any, count: Any) -> None:
            value = tirx.const(around.value, str(result.dtype))
            with T.serial(0, *int64((count * channels,))) as i:
                result[(image, *line, begin * channels + i)] = value

        def between() -> None:
            for begin, count in sides:
                if not (isinstance(count, int) and count == 0):
                    fill(begin, count)
            self._pixels(source, result, (image, pixels), [image, *line])

        if not inside:
            between()
            return
        with T.If(tirx.all(*inside)):
            with T.Then():
                between()
            with T.Else():
                fill(0, around.whole[-1])

    def _pixels(self, source: Any, result: Any, at: Any, to: list[Any]) -> None:
        """Emit the move of a line: 16 pixels together where there are as many."""
        wide, channels = self.shape[-1], self.shape[1]
        image, pixels = at
        home = self.borders.before[-1] * channels

        def vectors() -> None:
            last = wide - LANES
            with T.serial(0, *int64(((wide + LANES - 1) // LANES,))) as tile:
                first = tirx.min(tile * LANES, *int64((last,)))
                across = tirx.Ramp(first, 1, LANES)
                loaded = [source[(image, c, *pixels, across)] for c in range(channels)]
                side = tirx.Ramp(home + first * channels, 1, LANES * channels)
                result[(*to, side)] = interleaved(loaded)

        def singly() -> None:
            with T.grid(*int64((wide, channels))) as (pixel, channel):
                value = source[(image, channel, *pixels, pixel)]
                result[(*to, home + pixel * channels + channel)] = value

        if isinstance(wide, int):
            (vectors if wide >= LANES else singly)()
            return
        with T.If(wide >= LANES):
            with T.Then():
                vectors()
            with T.Else():
                singly()
