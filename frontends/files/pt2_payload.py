"""Vet the tables of tensors inside a ``.pt2`` file against the bytes that are really there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from torch._export.serde.serialize import deserialize_scalar_type

from tvm_sparse.errors import InputError

_STORED = re.compile(r"weight_\d+|tensor_\d+")
_LARGEST_EXPANSION = 1 << 24
"""Elements that a tensor may have without having as many in the file: zero strides."""


def vetted_payload(config: dict[str, Any], sizes: Mapping[str, int], where: str) -> dict[str, Any]:
    """Return the configuration of a file's weights or constants, all on the CPU.

    Parameters
    ----------
    config
        Content of ``model_weights_config.json`` or ``model_constants_config.json``.
    sizes
        Bytes of the members in the same folder, by name.
    where
        The file's name in errors.

    Raises
    ------
    InputError
        A tensor is stored as a pickled object, has no bytes, or lies outside of them.
    """
    dtypes: dict[str, Any] = {}
    for name, entry in config["config"].items():
        place = f"{where}: '{name}'"
        if entry["use_pickle"] or not _STORED.fullmatch(entry["path_name"]):
            raise InputError(
                place,
                "is stored as a pickled object",
                "tensors in PyTorch's raw form",
                "make sparse tensors dense before torch.export.export; save what torchao has "
                "quantized by run_decompositions()",
            )
        meta = entry["tensor_meta"]
        if dtypes.setdefault(entry["path_name"], meta["dtype"]) != meta["dtype"]:
            raise _damaged(place, "has another dtype than a tensor in the same bytes")
        _check_extent(meta, sizes.get(entry["path_name"]), place)
        meta["device"].update(type="cpu", index=None)
    return config


def _check_extent(meta: Mapping[str, Any], stored: int | None, where: str) -> None:
    """Refuse a tensor whose elements are not all among the ``stored`` bytes."""
    if stored is None:
        raise _damaged(where, "has no bytes in the file")
    shape, strides = ([_integer(n, where) for n in meta[key]] for key in ("sizes", "strides"))
    offset = _integer(meta["storage_offset"], where)
    if len(shape) != len(strides) or type(meta["dtype"]) is not int:
        raise _damaged(where, "has no shape, strides or dtype")
    item = deserialize_scalar_type(cast("Any", meta["dtype"])).itemsize
    elements = 1
    for length in shape:
        elements *= length
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    room = stored // item
    if elements and (stored % item or last >= room or elements > max(room, _LARGEST_EXPANSION)):
        raise _damaged(where, f"of shape {shape} does not fit into its {stored} bytes")
    if not elements and max(shape) >= 1 << 40:
        raise _damaged(where, f"has the shape {shape}")


def _integer(value: Any, where: str) -> int:
    """Return a plain number out of the form that symbolic ones have, too."""
    number = value["as_int"]
    if type(number) is not int or not 0 <= number < 1 << 48:
        raise _damaged(where, f"has {str(number)[:20]} as an extent, stride or offset")
    return number


def _damaged(where: str, found: str) -> InputError:
    return InputError(where, found, "a whole file", "copy it again, or export the model again")
