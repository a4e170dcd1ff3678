"""Names of tensors: the layer that a weight, a packed array or a bias belongs to."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

_PARAMETRIZED = re.compile(r"parametrizations\.(\w+)\.original\d*$")
_MASKED = re.compile(r"_(orig|mask)$")


def plain_name(tensor: str) -> str:
    """Return the name that ``tensor`` has once its pruning mask or parametrization is gone."""
    return _MASKED.sub("", _PARAMETRIZED.sub(r"\1", tensor))


def is_mask(tensor: str) -> bool:
    """Whether ``tensor`` is the mask of :mod:`torch.nn.utils.prune`, which goes with a weight."""
    return tensor.endswith("_mask")


def printable(text: str, kept: str = "") -> str:
    """Return ``text`` with escapes for what would steer a terminal, or what none can show.

    The letters of ``kept`` are left as they are.
    """
    return "".join(c if c.isprintable() or c in kept else _escaped(c) for c in text)


def matches(name: str, glob: str) -> bool:
    """Whether ``glob`` covers ``name``. A name covers itself, whatever letters it has."""
    return name == glob or fnmatchcase(name, glob)


def layer_of(tensor: str) -> str:
    """Return the layer of a weight: ``"fc.weight_orig"`` belongs to ``"fc"``.

    A tensor that is not called ``weight`` is a layer of its own.
    """
    plain = _PARAMETRIZED.sub(r"\1", tensor).removesuffix("_orig")
    return plain.removesuffix(".weight") or plain


def holder(module: Any, name: str) -> tuple[Any, str]:
    """Return the module inside ``module`` that has the tensor of a dotted name, and its name there.

    ``getattr(*holder(module, name))`` is the tensor.
    """
    path, _, last = name.rpartition(".")
    return module.get_submodule(path), last


def layer_of_array(array: str) -> str:
    """Return the layer of a packed array or a bias: ``"fc.weight.values"`` belongs to ``"fc"``."""
    return layer_of(array.rpartition(".")[0])


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape", "backslashreplace").decode("ascii")
