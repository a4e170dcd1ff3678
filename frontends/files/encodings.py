"""Weights that a checkpoint stores in parts: masks of PyTorch, bitmasks of compressed-tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from tvm_sparse.errors import InputError

DENSE = "dense"
Decode = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Encoding:
    """How one weight is stored.

    Parameters
    ----------
    storage
        What reports call it.
    parts
        Names of the stored tensors that ``decode`` takes; the first has the values' type.
    decode
        Called with the weight's name and these tensors; returns the weight.
    shape
        Name of the stored tensor that holds the shape; None if the first part has it.
    """

    storage: str
    parts: tuple[str, ...]
    decode: Decode
    shape: str | None = None


def encodings(stored: Collection[str]) -> dict[str, Encoding]:
    """Return the weights that the tensors called ``stored`` mean, and how each is stored.

    ``<name>_orig`` and ``<name>_mask`` are what :mod:`torch.nn.utils.prune` leaves while a mask is
    attached. ``<layer>.compressed``, ``.bitmask`` and ``.shape`` are the formats
    ``sparse-bitmask`` and ``sparse-24-bitmask`` of compressed-tensors, for ``<layer>.weight``.
    """
    weights = dict([*_masked(stored), *_bitmasks(stored)])
    parts = {part: name for name, encoding in weights.items() for part in encoding.parts}
    parts |= {f"{n.removesuffix('.weight')}.row_offsets": n for n in weights}
    found: dict[str, Encoding] = {}
    for name in stored:
        weight = parts.get(name, name)
        found[weight] = weights.get(weight) or Encoding(DENSE, (name,), lambda _, value: value)
    return found


def _masked(stored: Collection[str]) -> Iterator[tuple[str, Encoding]]:
    for name in stored:
        base = name.removesuffix("_orig")
        if base != name and f"{base}_mask" in stored:
            yield base, Encoding("masked", (name, f"{base}_mask"), lambda _, w, mask: w * mask)


def _bitmasks(stored: Collection[str]) -> Iterator[tuple[str, Encoding]]:
    for name in stored:
        layer = name.removesuffix(".compressed")
        parts = tuple(f"{layer}.{part}" for part in ("compressed", "bitmask", "shape"))
        if layer != name and all(part in stored for part in parts):
            yield f"{layer}.weight", Encoding("bitmask", parts, _from_bitmask, parts[-1])


def _from_bitmask(
    name: str, values: torch.Tensor, bits: torch.Tensor, shape: torch.Tensor
) -> torch.Tensor:
    """Return the weight whose places are bits, rows padded to bytes, the lowest bit first."""
    extents = tuple(shape.flatten().tolist())
    width = extents[-1] if extents else 0
    if bits.dtype != torch.uint8 or tuple(bits.shape) != (*extents[:-1], -(-width // 8)):
        raise InputError(
            f"weight '{name}'",
            f"has a bitmask {tuple(bits.shape)} for the shape {extents}",
            "a row of bytes for each row of the weight",
            "save the checkpoint again",
        )
    kept = np.unpackbits(bits.numpy(), axis=-1, count=width, bitorder="little").astype(bool)
    if kept.sum() != values.numel():
        raise InputError(
            f"weight '{name}'",
            f"has {values.numel()} values for {kept.sum()} places",
            "one for each",
            "save the checkpoint again",
        )
    dense = torch.zeros(extents, dtype=values.dtype)
    dense[torch.from_numpy(kept)] = values.flatten()
    return dense
