"""Options of one compilation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias, get_type_hints

from pydantic import TypeAdapter, ValidationError

from tvm_sparse.base.names import matches
from tvm_sparse.errors import InputError

Precision: TypeAlias = Literal["float32", "bfloat16"]
"""What layers of floats may multiply."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """How to compile; every field has a default that suits most models.

    Parameters
    ----------
    sparse
        ``False`` compiles every layer dense by the same pipeline: the baseline for speed-ups.
    measure
        Time dense and sparse candidates of each layer on this machine and take the faster;
        ``False`` decides by the cost model. Nothing is measured for GPUs, or for other machines.
    cache
        Take what the user's cache directory has from this machine: times that were measured before
        for the same code (new ones are kept there), and costs that ``tvm-sparse machine --fit``
        fitted.
    tuned
        Use tuning records where they are faster than the default schedules.
    precision
        What linear layers and convolutions multiply: ``"bfloat16"`` rounds their inputs and weights
        to eight bits, where the chip multiplies such numbers. Sums and all else are float32.
    libraries
        Let NVIDIA's cuBLASLt and cuDNN compute dense layers, and cuSPARSELt 2:4 ones, on GPUs where
        they are modelled faster and are there at run time; our own kernels run otherwise. ``False``
        always takes our own: they need no library, and give the same bits with any version of it.
    ignore
        Layers that stay dense: globs on fully qualified names.
    force
        Layer glob to a format name (``"balanced"``, ``"block"``, …) or a dense way: ``"dense"``
        (the direct sum), ``"winograd"`` (3x3 convolutions), ``"shifts"`` (few features),
        ``"tiles"`` (bytes and bfloat16 on CPUs with AMX; ``"block_tiles"`` leaves out blocks of
        zeros), ``"cublaslt"``, ``"cudnn"`` (on GPUs). ``"cusparselt"`` is 2:4 by that library.
        Stronger than any measurement; what does not fit the layer is an error.
    refreshable
        Export the model's graph, too, so that ``tvm-sparse refresh`` can give the artifact other
        values later. The graph tells how the network is built.
    dump
        Write the module after each pass into this directory, ``1-canonicalise/02-Simplify.py`` and
        so on, to see what a pass did; by default the value of ``TVM_SPARSE_DUMP``, if set.

    Raises
    ------
    InputError
        A value has another type than its field.
    """

    sparse: bool = True
    measure: bool = True
    cache: bool = True
    tuned: bool = True
    precision: Precision = "float32"
    libraries: bool = True
    ignore: tuple[str, ...] = ()
    force: Mapping[str, str] = field(default_factory=dict)
    refreshable: bool = False
    dump: str = field(default_factory=lambda: os.environ.get("TVM_SPARSE_DUMP", ""))

    def __post_init__(self) -> None:
        """Refuse values of another type, with the field's name."""
        hints = get_type_hints(type(self))
        for part in fields(self):
            value = getattr(self, part.name)
            try:
                checked = TypeAdapter(hints[part.name]).validate_python(value)
            except ValidationError as error:
                problem = error.errors()[0]["msg"]
                raise InputError(f"Config, {part.name}", repr(value), problem) from None
            object.__setattr__(self, part.name, checked)

    def ignored(self, layer: str) -> bool:
        """Whether ``layer`` stays dense."""
        return any(matches(layer, glob) for glob in self.ignore)

    def forced(self, layer: str) -> str | None:
        """Return the format that the user asked for in ``layer``, if any."""
        if self.ignored(layer):
            return "dense"
        return next((v for glob, v in self.force.items() if matches(layer, glob)), None)
