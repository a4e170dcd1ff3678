"""The options of ``torch.compile(model, backend="tvm_sparse", options={...})``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from tvm_sparse.base.config import Config
from tvm_sparse.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    """What :class:`~tvm_sparse.base.config.Config` has, and how graphs become libraries.

    Parameters
    ----------
    target
        As for :func:`tvm_sparse.compile`, something that runs here. By default it follows the
        tensors of each graph: ``"cpu"`` or ``"cuda"``.
    limit
        Compilations of one graph: for its shapes, and for weights that changed. Beyond it PyTorch
        runs the graph.
    artifacts
        Keep what is compiled in the user's cache directory for other processes.
    check
        How changed weights are noticed at each call: by PyTorch's ``"versions"`` of tensors and a
        few values of each, or by all their ``"values"``. The latter also sees single elements that
        were written through ``tensor.data`` or NumPy, and takes the time of reading all weights.
        Values on a GPU are compared there, and a call waits for that; with ``"counts"`` none are
        read, and only what PyTorch counts versions of is noticed.
    """

    target: str | None = None
    limit: int = 8
    artifacts: bool = True
    check: Literal["versions", "values", "counts"] = "versions"

    def __post_init__(self) -> None:
        """Refuse values of another type, with the field's name."""
        super().__post_init__()
        if self.limit < 1:
            raise InputError("option 'limit'", f"is {self.limit}", "at least 1")

    @property
    def place(self) -> str:
        """The target, the host's where none is named."""
        return self.target or "cpu"

    @property
    def config(self) -> Config:
        """The part that the compiler takes."""
        return Config(**{field.name: getattr(self, field.name) for field in fields(Config)})


def parse_options(given: Mapping[str, Any] | None) -> Options:
    """Return checked options.

    Raises
    ------
    InputError
        There is no such option, or its value is not valid.
    """
    known = [field.name for field in fields(Options)]
    for name in given or {}:
        if name not in known:
            raise InputError("options", f"there is no '{name}'", f"some of {', '.join(known)}")
    return Options(**(given or {}))
