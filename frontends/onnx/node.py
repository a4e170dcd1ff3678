"""One ONNX node as converters see it, and the one way to refuse it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm_sparse.errors import InputError, UnsupportedError


@dataclass(frozen=True)
class Node:
    """A node of a graph.

    Parameters
    ----------
    operator, domain
        What it computes; the domain of ONNX's own operators is empty.
    opset
        Version of the operator set of that domain.
    name
        How messages call it: its name, or its operator and first output where it has none.
    inputs, outputs
        Names of its values; an empty name is one that is left out.
    attributes
        By name: numbers, strings, lists of these, ``TensorProto`` or ``GraphProto``.
    computed
        Inputs that nodes before it compute, by names that a user can give: in the whole graph only.
    fixing
        Returns the advice to fix what decides a value, by its name.
    run
        Runs a subgraph of this node; see :class:`~tvm_sparse.frontends.onnx.scope.Scope`.
    """

    operator: str
    domain: str
    opset: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(repr=False)
    computed: tuple[str, ...] = ()
    fixing: Callable[[str], str] = field(default=lambda name: "", repr=False)
    run: Callable[[Any, Sequence[Any]], list[Any]] | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """Where an error of this node is."""
        return f"node '{self.name}'"

    @property
    def cut(self) -> str:
        """Advice to compile what comes before this node, behind another advice; empty for none."""
        if not self.computed:
            return ""
        options = " ".join(f"--outputs {shlex.quote(name)}" for name in self.computed)
        names = ", ".join(f"'{name}'" for name in self.computed)
        return f", or cut here: outputs=[{names}] ({options}) compiles what comes before it"

    def with_outputs(self, count: int) -> Node:
        """Return this node with its first outputs only, for a converter of a part of it."""
        return replace(self, outputs=self.outputs[:count])

    def refuse(self, found: str, expected: str = "", remedy: str = "") -> UnsupportedError:
        """Return the error that this node, sound as it is, is not imported."""
        return UnsupportedError(
            self.place, f"operator '{self.operator}': {found}", expected, remedy
        )

    def unsound(self, found: str, expected: str = "") -> InputError:
        """Return the error that this node breaks the rules of ONNX."""
        return InputError(
            self.place, f"operator '{self.operator}': {found}", expected, "export the model again"
        )
