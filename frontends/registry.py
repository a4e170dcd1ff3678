"""The front ends: what each takes, and how it opens that; third parties add their own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_sparse.base.extras import require
from tvm_sparse.base.table import Table
from tvm_sparse.frontends.asked import Asked
from tvm_sparse.frontends.files.part import Part
from tvm_sparse.frontends.model import Model


@dataclass(frozen=True)
class FrontEnd:
    """One way in.

    Parameters
    ----------
    takes
        Whether a source is its own: an object, a path or a text.
    open
        Returns the source as a ``torch.nn.Module``, an ``ExportedProgram`` or a
        :class:`~tvm_sparse.frontends.model.Model`; called as ``open(source, weights)``.
    weights
        Whether it fills what it opens from a weights file; others are never given one.
    open_part
        Returns a part of a source whose values have names, as a model; ``None`` where they have
        none.
    shaped
        Returns a part of a source, or all of it, for inputs of other shapes than it says, as a
        model; ``None`` where the source brings its own.
    """

    takes: Callable[[Any], bool]
    open: Callable[[Any, Path | None], Any]
    weights: bool = False
    open_part: Callable[[Any, Part], Any] | None = None
    shaped: Callable[[Any, Part, Asked], Model] | None = None


def suffix(*names: str) -> Callable[[Any], bool]:
    """Return a test for paths that end with one of ``names``, like ``".pt2"``."""
    return lambda source: isinstance(source, str | Path) and Path(source).suffix in names


def _is_module(source: Any) -> bool:
    import torch

    return isinstance(source, torch.nn.Module | torch.export.ExportedProgram | Model)


def _is_factory(source: Any) -> bool:
    return isinstance(source, str) and ":" in source and not Path(source).exists()


def _open_pt2(source: Any, _weights: Path | None) -> Any:
    from tvm_sparse.frontends.files.pt2 import load_pt2

    return load_pt2(Path(source))


def _open_onnx(source: Any, _weights: Path | None) -> Any:
    return _open_part_of_onnx(source, Part())


def _open_part_of_onnx(source: Any, part: Part) -> Any:
    require("onnx", str(source))
    from tvm_sparse.frontends.onnx import load_onnx

    return load_onnx(Path(source), part)


def _shaped_onnx(source: Any, part: Part, asked: Asked) -> Model:
    require("onnx", str(source))
    from tvm_sparse.frontends.onnx.shaped import load_shaped

    return load_shaped(Path(source), part, asked)


def _is_onnx_network(source: Any) -> bool:
    if isinstance(source, str | Path):
        return False
    from tvm_sparse.pruning.onnx_models.network import OnnxNetwork

    return isinstance(source, OnnxNetwork)


@contextlib.contextmanager
def _saved(network: Any) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.onnx"
        network.save(path)
        yield path


def _open_part_of_network(source: Any, part: Part) -> Any:
    with _saved(source) as path:
        return _open_part_of_onnx(path, part)


def _shaped_network(source: Any, part: Part, asked: Asked) -> Model:
    with _saved(source) as path:
        return _shaped_onnx(path, part, asked)


def _is_relax(source: Any) -> bool:
    import tvm

    return isinstance(source, tvm.IRModule)


def _open_relax(source: Any, _weights: Path | None) -> Model:
    from tvm_sparse.frontends.relax_module import from_relax

    return from_relax(source)


def _open_factory(source: Any, weights: Path | None) -> Any:
    from tvm_sparse.frontends.files.safetensors import load_factory

    return load_factory(source, weights)


FRONT_ENDS: Table[FrontEnd] = Table(
    "front end",
    {
        "onnx": FrontEnd(
            suffix(".onnx"), _open_onnx, open_part=_open_part_of_onnx, shaped=_shaped_onnx
        ),
        "relax": FrontEnd(_is_relax, _open_relax),
        "pt2": FrontEnd(suffix(".pt2"), _open_pt2),
        "factory": FrontEnd(_is_factory, _open_factory, weights=True),
        "object": FrontEnd(_is_module, lambda source, _weights: source),
        "onnx network": FrontEnd(
            _is_onnx_network,
            lambda source, _weights: _open_part_of_network(source, Part()),
            open_part=_open_part_of_network,
            shaped=_shaped_network,
        ),
    },
)
"""The last one that takes a source opens it: what third parties add is asked first."""


def front_end(source: Any) -> FrontEnd | None:
    """Return the front end of ``source``, if there is one."""
    return next((f for f in reversed([*FRONT_ENDS]) if f.takes(source)), None)
