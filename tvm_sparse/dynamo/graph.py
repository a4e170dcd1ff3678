"""One graph of Dynamo: compiled for each shape that it meets, renewed when weights change."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from tvm_sparse.dynamo.changes import snapshot
from tvm_sparse.dynamo.devices import on_host
from tvm_sparse.dynamo.frozen import Bounds, Frozen, freeze, is_number, is_weight
from tvm_sparse.dynamo.options import Options
from tvm_sparse.dynamo.programs import Runner, exported, runner
from tvm_sparse.errors import SparseError

LEAST = (0, 4, 16, math.inf)
"""Least open extents that are tried one after another, up to the extents at hand.

A convolution or a slice may leave one element of two or five, which PyTorch handles apart.
"""


@dataclass(frozen=True)
class Compiled:
    """A graph for one shape and its ``owners``, the weights: what runs it, and a test of these."""

    frozen: Frozen
    runner: Runner
    shapes: str
    unchanged: Callable[[Sequence[Any]], bool]
    owners: tuple[weakref.ref[Any], ...]


class Graph:
    """A graph that compiles itself when it is called.

    Attributes
    ----------
    home
        Where its tensors lie; numbers may lie on the host.
    refused
        Why PyTorch runs the whole graph, by its shapes; "any" for all of them.
    compiled
        By shapes, and for each of them by weights: models of one class share a graph of Dynamo's.
    owners
        The weights that the graph was called with.
    """

    def __init__(self, graph: fx.GraphModule, options: Options, home: torch.device) -> None:
        self.graph, self.options, self.home, self.compilations = graph, options, home, 0
        self.compiled: dict[Any, list[Compiled]] = {}
        self.refused: dict[str, str] = {}
        self.owners: list[weakref.ref[Any]] = []
        self._nodes = graph.graph.find_nodes(op="placeholder")
        self._weights = {place for place, node in enumerate(self._nodes) if is_weight(node)}
        self._numbers = {place for place, node in enumerate(self._nodes) if is_number(node)}
        self._bounds: Bounds | None = None
        self._limits: list[tuple[int, int, int, float]] | None = None

    def refuse(self, shapes: str, reason: str) -> None:
        """Leave ``shapes`` to PyTorch, and say so once."""
        if self.refused.setdefault(shapes, reason) is reason:
            warnings.warn(f"tvm_sparse leaves a graph to PyTorch: {reason}", stacklevel=2)

    def __call__(self, *args: Any) -> Any:
        """Run the graph."""
        found = self._known(args) or self._renewed(args)
        if found is None:
            return self.graph(*args)
        return found.runner.run(*(self._at_home(args[place]) for place in found.frozen.inputs))

    def _at_home(self, arg: Any) -> Any:
        away = isinstance(arg, torch.Tensor) and arg.device != self.home
        return arg.to(self.home) if away else arg

    def _known(self, args: Sequence[Any]) -> Compiled | None:
        """Return what was compiled for these shapes and weights."""
        for made in reversed(self.compiled.get(self._key(args), ())):
            if made.unchanged([args[place] for place in made.frozen.weights]):
                return made
        return None

    def _renewed(self, args: Sequence[Any]) -> Compiled | None:
        inside = self._weights | self._numbers
        shapes = _shown([arg for place, arg in enumerate(args) if place not in inside])
        if shapes in self.refused:
            return None
        if self.compilations >= self.options.limit:
            self.refuse(shapes, f"it was compiled {self.compilations} times (option 'limit')")
            return None
        self.compilations += 1
        try:
            made = self._compile(args, shapes)
        except SparseError as error:
            self.refuse(shapes, str(error))
            return None
        self.compiled.setdefault(self._key(args), []).append(made)
        self.owners += made.owners
        if made.runner.eager:
            names = ", ".join(dict.fromkeys(e.operator for e in made.runner.eager))
            warnings.warn(
                f"tvm_sparse leaves operators to PyTorch ({names}); tvm_sparse.partitions says why",
                stacklevel=2,
            )
        return made

    def _compile(self, args: Sequence[Any], shapes: str) -> Compiled:
        frozen = freeze(self.graph, args)
        program = exported(frozen.module, [on_host(args[place]) for place in frozen.inputs])
        found = None
        if any(frozen.dynamic) and (self._is_open(args) or not self.compiled):
            found = self._with_open_extents(frozen, args)
            if found is None:
                self._bounds = self._limits = None
        weights = [args[place] for place in frozen.weights]
        return Compiled(
            frozen,
            found or runner(program, self.options, self.home, whole=False),
            shapes,
            snapshot(weights, self.options.check),
            tuple(map(weakref.ref, weights)),
        )

    def _with_open_extents(self, frozen: Frozen, args: Sequence[Any]) -> Runner | None:
        """Return the graph for all that its open extents may be, None if that cannot be compiled.

        Where PyTorch refuses the least that Dynamo allows, more is the least. Other weights get the
        bounds that the first ones got.
        """
        inputs = [on_host(args[place]) for place in frozen.inputs]
        tries = [frozen.bounds_from(least, inputs) for least in LEAST]
        for bounds in tries if self._bounds is None else [self._bounds]:
            try:
                program = exported(frozen.module, inputs, frozen.open_shapes(bounds))
            except Exception:  # PyTorch's guards exclude some of these extents
                continue
            try:
                found = runner(program, self.options, self.home, whole=True)
            except Exception:  # static shapes then, which may say why they fail
                return None
            self._bounds, self._limits = bounds, frozen.limits(bounds)
            return found
        return None

    def _is_open(self, args: Sequence[Any]) -> bool:
        """Whether what is compiled with open extents serves the shapes of ``args``."""
        return self._limits is not None and all(
            least <= args[place].shape[axis] <= most for place, axis, least, most in self._limits
        )

    def _key(self, args: Sequence[Any]) -> Any:
        """Return what a compilation depends on: shapes, unless they are open, and numbers."""
        is_open = self._is_open(args)

        def part(place: int) -> Any:
            arg = args[place]
            if place in self._numbers:
                return arg.item()
            if isinstance(arg, torch.Tensor):
                return None if is_open else tuple(arg.shape), arg.dtype
            return None if is_open else arg

        return tuple(part(place) for place in range(len(args)) if place not in self._weights)


def _shown(args: Sequence[Any]) -> str:
    tensors = (a for a in args if isinstance(a, torch.Tensor))
    return ", ".join(f"{str(a.dtype).removeprefix('torch.')}{list(a.shape)}" for a in tensors)
