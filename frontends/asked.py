"""What a caller says about the shapes of a source's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Asked:
    """What a caller says about the shapes of inputs; see :func:`~tvm_sparse.frontends.load`."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_batch: bool | tuple[int, int] = False
    dynamic_shapes: Any = None
    shapes: Any = field(default_factory=dict)
    bounds: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self != Asked()
