"""Dense runtimes on files of one network: with open extents, and with those of a shape."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers.model_runtimes import OPENERS, write_onnx, write_quantized

RUNTIMES = ("onnxruntime", "openvino")
"""What reads ONNX files; one that is not installed is left out."""


class OpenFile:
    """The file of a dense network with open extents, in float32 or in bytes.

    Bytes are calibrated on the example alone, which suits timing.
    """

    def __init__(
        self, model: Any, example: torch.Tensor, dims: Mapping[int, Any], numbers: str, folder: Path
    ) -> None:
        self.model, self.folder = model, folder
        self.write = write_onnx if numbers == "float32" else write_quantized
        self.open = folder / "open.onnx"
        self.write(model, example, self.open, dims)

    def programs(self, x: torch.Tensor, threads: int) -> dict[str, Callable[[], Any]]:
        """Return what runs ``x``, by ``"<runtime>, closed"`` and ``"<runtime>, open"``.

        What refuses its file is left out, and stderr says why: PyTorch's exporter writes the
        example's length into the open file of an LSTM.
        """
        closed = self.folder / "closed.onnx"
        self.write(self.model, x, closed)
        data, found = np.ascontiguousarray(x.numpy()), {}
        for runtime in filter(find_spec, RUNTIMES):
            for name, file in (("closed", closed), ("open", self.open)):
                try:
                    program = OPENERS[runtime](file, data, threads)
                    program()
                except Exception as error:
                    why = str(error).splitlines()[0][:200]
                    print(f"{runtime}, {name}: left out, {why}", file=sys.stderr)
                else:
                    found[f"{runtime}, {name}"] = program
        return found
