"""The weights of a checkpoint by name: a safetensors file, or the shards that make up a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from tvm_sparse.base import json_text
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.encodings import Encoding, encodings

INDEX = ".safetensors.index.json"
_EXPECTED = "a .safetensors file, its index, or a folder with one"


def is_checkpoint(source: Any) -> bool:
    """Whether ``source`` names a file, an index or a folder of safetensors."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    return path.suffix == ".safetensors" or path.name.endswith(INDEX) or path.is_dir()


class Checkpoint:
    """The weights at ``path`` by name, each read when asked for.

    What is stored in parts appears as the weight that these mean; see
    :mod:`tvm_sparse.frontends.files.encodings`.

    Parameters
    ----------
    path
        A ``.safetensors`` file, a ``.safetensors.index.json``, or a folder with either.

    Raises
    ------
    InputError
        A file is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self._files = _opened(path)
        self._encodings = encodings(self._files)
        self.names = tuple(self._encodings)

    def storage(self, name: str) -> str:
        """Return how ``name`` is stored, in a word or two."""
        return self._encodings[name].storage

    def tensor(self, name: str) -> torch.Tensor:
        """Return the effective value of ``name``."""
        encoding = self._encodings[name]
        parts = [self._files[part].get_tensor(part) for part in encoding.parts]
        return encoding.decode(name, *parts)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of ``name``, without reading its values."""
        encoding = self._encodings[name]
        if encoding.shape is not None:
            return tuple(self._files[encoding.shape].get_tensor(encoding.shape).flatten().tolist())
        return tuple(self._values(encoding).get_shape())

    def is_floating(self, name: str) -> bool:
        """Whether the values of ``name`` are floating-point numbers."""
        return self._values(self._encodings[name]).get_dtype().startswith(("F", "BF"))

    def _values(self, encoding: Encoding) -> Any:
        return self._files[encoding.parts[0]].get_slice(encoding.parts[0])


def _opened(path: Path) -> dict[str, Any]:
    """Return the file that holds each stored tensor."""
    place = _in_folder(path) if path.is_dir() else path
    if not place.name.endswith(INDEX):
        file = _open(place)
        return dict.fromkeys(file.keys(), file)
    shards = {name: _open(place.parent / name) for name in sorted(set(_index(place).values()))}
    stored = {name: shards[shard] for name, shard in _index(place).items()}
    for name, file in stored.items():
        if name not in file.keys():
            raise InputError(str(place), f"'{name}' is not in the shard it names", "its weights")
    return stored


def _in_folder(folder: Path) -> Path:
    """Return the index in ``folder``, or the one file."""
    found = sorted(folder.glob(f"*{INDEX}")) or sorted(folder.glob("*.safetensors"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "no safetensors"
        raise InputError(str(folder), f"has {names}", _EXPECTED, "name the file or the index")
    return found[0]


def _index(path: Path) -> dict[str, str]:
    """Return the file that holds each tensor, from an index."""
    try:
        shards = json_text.parsed(path.read_text(encoding="utf-8"))["weight_map"]
        sound = all(type(s) is str and Path(s).name == s for s in shards.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(str(path), f"is no index ({error})", _EXPECTED) from error
    if not sound:
        raise InputError(str(path), "names files elsewhere", "shards beside it")
    return dict(shards)


def _open(path: Path) -> Any:
    if not path.is_file():
        raise InputError(str(path), "no such file", _EXPECTED, "check the path")
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        found = f"is no sound safetensors file ({error})"
        raise InputError(str(path), found, "", "save the weights again") from error
