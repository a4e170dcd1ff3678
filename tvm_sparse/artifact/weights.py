"""The weight section: every weight in one mapped, aligned, read-only part of the library."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from tvm_sparse.errors import ArtifactError, InputError
from tvm_sparse_runtime.manifest import WEIGHTS_SYMBOL, Weight
from tvm_sparse_runtime.spec import ALIGNMENT, ITEM_BYTES

_PAGE = 4096
_CHUNK = 1 << 20
_ASSEMBLY = f"""\
.section .tvm_sparse.weights,"a",%progbits
.balign {_PAGE}
.globl {WEIGHTS_SYMBOL}
.type {WEIGHTS_SYMBOL},%object
{WEIGHTS_SYMBOL}:
.incbin "weights.bin"
.size {WEIGHTS_SYMBOL}, .-{WEIGHTS_SYMBOL}
.globl {WEIGHTS_SYMBOL}_end
.type {WEIGHTS_SYMBOL}_end,%object
{WEIGHTS_SYMBOL}_end:
.byte 0
.section .note.GNU-stack,"",%progbits
"""


def weight_object(weights: Mapping[str, np.ndarray], workspace: Path, compiler: str) -> Path:
    """Assemble the object file that holds all ``weights``.

    Parameters
    ----------
    weights
        Arrays by name; written one after another, so memory-mapped ones stay on disk.
    workspace
        Directory for the object and for what is needed on the way.
    compiler
        C or C++ compiler that assembles.

    Returns
    -------
    path
        The object; the table for it comes from :func:`weight_table`.

    Raises
    ------
    InputError
        If a weight holds NaN or infinity, naming it.
    ArtifactError
        If the compiler fails.
    """
    raw, source, target = (workspace / f"weights.{kind}" for kind in ("bin", "S", "o"))
    with raw.open("wb") as file:
        for name, array in weights.items():
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            for chunk in _checked_chunks(name, array):
                file.write(chunk.data)
    source.write_text(_ASSEMBLY, encoding="utf-8")
    command = [compiler, "-c", source.name, "-o", target.name]
    done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ArtifactError(compiler, f"cannot assemble the weights ({done.stderr.strip()})")
    raw.unlink()
    return target


def weight_table(weights: Mapping[str, np.ndarray]) -> tuple[Weight, ...]:
    """Return name, dtype, shape and offset of each weight in the section."""
    table, offset = [], 0
    for name, array in weights.items():
        if array.dtype.name not in ITEM_BYTES:
            raise InputError(f"weight {name}", f"dtype {array.dtype}", ", ".join(ITEM_BYTES))
        offset += -offset % ALIGNMENT
        table.append(Weight(name, array.dtype.name, tuple(map(int, array.shape)), offset))
        offset += array.nbytes
    return tuple(table)


def _checked_chunks(name: str, array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the bytes of ``array`` in pieces, refusing values that are not finite."""
    flat = np.asarray(array, array.dtype.newbyteorder("="), order="C").reshape(-1)
    step = max(1, _CHUNK // array.dtype.itemsize)
    for start in range(0, flat.size, step):
        chunk = flat[start : start + step]
        if not np.issubdtype(chunk.dtype, np.integer) and not np.isfinite(chunk).all():
            where = int(np.flatnonzero(~np.isfinite(chunk))[0])
            index = tuple(map(int, np.unravel_index(start + where, array.shape)))
            raise InputError(
                f"weight {name}",
                f"{chunk[where]} at index {index}",
                "finite numbers",
                "retrain or repair the model",
            )
        yield chunk.view(np.uint8)
