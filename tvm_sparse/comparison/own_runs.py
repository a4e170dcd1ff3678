"""Runs of a source on inputs that it is given, or that are made for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.base.array_files import read_array
from tvm_sparse.base.made_inputs import Whole, is_whole, made_inputs, sizes
from tvm_sparse.comparison.reference import Program, Reference
from tvm_sparse.errors import InputError


@dataclass(frozen=True)
class Run:
    """What a source computes from ``inputs``.

    ``extents`` are those of open axes of made inputs. ``program`` computes ``outputs`` again.
    """

    inputs: list[np.ndarray]
    extents: dict[str, int]
    program: Program
    outputs: list[np.ndarray]


def own_runs(
    library: Any,
    reference: Reference,
    files: Sequence[Path] | None = None,
    at: Mapping[str, int] | None = None,
) -> list[Run]:
    """Return runs of a source: one of the arrays in ``files``, or one for each size of made inputs.

    Parameters
    ----------
    library
        What was compiled of it, to be compared: it takes the inputs, too.
    reference
        Makes the source's program of inputs.
    files, at
        One array for each input; or extents of open axes, others as :func:`~.made_inputs.sizes`
        says.

    Raises
    ------
    InputError
        The source or the library takes no made inputs, or what the source computes of them is
        nowhere finite, so that nothing can be compared.
    """
    if files:
        inputs = [read_array(path) for path in files]
        program = reference(inputs)
        return [Run(inputs, {}, program, program())]
    found, reasons = [], []
    for extents in sizes(library.inputs, library.bounds, at):
        for whole in Whole if any(map(is_whole, library.inputs)) else (Whole.MIXED,):
            made = made_inputs(library.inputs, extents, whole)
            try:
                program = reference(made)
                run = Run(made, extents, program, program())
                library.run(*made)
            except Exception as error:  # of PyTorch, of onnxruntime, or of what is asserted
                reasons += str(error).strip().splitlines()[:1] or [type(error).__name__]
                continue
            if all(map(_says_something, run.outputs)):
                found.append(run)
                break
            reasons.append("an output is nowhere finite")
    if not found:
        raise InputError(
            "inputs made here",
            f"are not what the source can be compared on: {reasons[0][:200]}",
            "inputs as the model takes them",
            "give a .npy file for each with --input",
        )
    return found


def _says_something(output: np.ndarray) -> bool:
    return not output.size or bool(np.isfinite(np.asarray(output, np.complex128)).any())
