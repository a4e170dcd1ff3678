"""Whole networks with one candidate in every layer, compiled and timed."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from tvm.target import Target

from tvm_sparse.base.config import Config
from tvm_sparse.base.progress import ReportProgress
from tvm_sparse.base.targets import parse_target
from tvm_sparse.errors import SlowKernelWarning
from tvm_sparse.onnx_files.names import layer_name
from tvm_sparse.planning.candidates import Candidate
from tvm_sparse.planning.costs import Costs, table
from tvm_sparse.planning.stitching import drop_of, outputs, rows_of
from tvm_sparse.planning.timing import Taken, measured, modelled
from tvm_sparse.program.compiler import compile
from tvm_sparse.program.library import Library
from tvm_sparse.pruning.compensation.calls import Batch, call_of
from tvm_sparse.pruning.functions import prune
from tvm_sparse.pruning.layers import Selection
from tvm_sparse.pruning.masks import squashed_copy
from tvm_sparse.pruning.onnx_models.layers import to_array
from tvm_sparse.pruning.onnx_models.network import OnnxNetwork
from tvm_sparse.quantization import quantize
from tvm_sparse.quantization.onnx_models.function import quantize_onnx

FLOAT = "float32"
ACTIVATIONS = {"int8": "static", "int8-dynamic": "dynamic"}
"""How :func:`.quantize` finds scales, by the name of numerics in bytes."""


PIECES = 64
"""Of the calibration data that bytes get their scales from, and are compared on, at most."""


@dataclass(frozen=True)
class Networks:
    """The network that is planned for.

    ``network`` has plain weights; ``selection`` are the layers that may be pruned. ``example`` has
    the shapes that times are for, ``batches`` calibrate scales of bytes where they have them, too.
    """

    network: nn.Module
    selection: Selection
    example: Batch
    batches: Sequence[Batch]
    target: str | Target
    config: Config

    @property
    def runs_here(self) -> bool:
        """Whether times can be measured."""
        return parse_target(self.target).timed_here and self.config.measure

    def costs(
        self, numerics: str, candidates: Sequence[Candidate], progress: ReportProgress
    ) -> Costs:
        """Compile the network with each of ``candidates`` and return the table."""
        what, made = f"networks in {numerics}", 0

        def library(candidate: Candidate) -> tuple[Library, float]:
            nonlocal made
            made += 1
            found = self._library(numerics, candidate)
            progress(what, made, len(candidates))
            return found

        dense, drop = library(candidates[0])
        sparse = (library(candidate)[0] for candidate in candidates[1:])
        taken = self._measured(dense, sparse) if self.runs_here else modelled([dense, *sparse])
        taken = [one.renamed(compiled_names(self.network)) for one in taken]
        labels = [layer.label for layer in self.selection]
        sizes = [layer.weight.numel() for layer in self.selection]
        source = "measured" if self.runs_here else "modelled"
        return replace(table(labels, sizes, candidates, taken, source), drop=drop)

    def _measured(self, dense: Library, sparse: Iterable[Library]) -> list[Taken]:
        """Return what the networks take; each is in turns with the dense one.

        The machine may be slower or faster than before: the dense network tells.
        """
        args, kwargs = call_of(self.example)
        inputs = dense.arrays(*args, **kwargs)
        taken = measured([dense], inputs)
        for library in sparse:
            again, found = measured([dense, library], inputs)
            taken.append(found.scaled(taken[0].whole_us / again.whole_us))
            del library  # before the next one is compiled
        return taken

    def _library(self, numerics: str, candidate: Candidate) -> tuple[Library, float]:
        """Return the compiled network, and the drop of dense outputs by the numerics."""
        network = squashed_copy(self.network)
        if (method := candidate.ranked) is not None:
            names = [layer.name for layer in self.selection]
            prune(network, method, include=names).squash_mask()
        own = alike(self.batches, self.example)
        library, program = compiled(
            network, numerics, self.example, own, target=self.target, config=self.config
        )
        if program is None and numerics != FLOAT and self.runs_here:
            program = library
        return library, 0.0 if candidate.method or program is None else self._drop(program, own)

    def _drop(self, program: Callable[..., Any], batches: Sequence[Batch]) -> float:
        """Return the drop of the outputs of ``program`` from those of the network."""
        found = []
        for batch in batches:
            args, kwargs = call_of(batch)
            with torch.no_grad():
                found.append(rows_of(program(*args, **kwargs), batch))
        return drop_of(found, [outputs(self.network, batch) for batch in batches])


def compiled(
    network: nn.Module,
    numerics: str,
    example: Batch,
    batches: Sequence[Batch],
    *,
    target: str | Target,
    config: Config,
) -> tuple[Library, Callable[..., Any] | None]:
    """Return ``network`` compiled in ``numerics``, and the program in bytes if it is one.

    ``batches``, all with the shapes of ``example``, give bytes their scales.
    """
    activations = ACTIVATIONS.get(numerics)
    if activations is None and numerics != FLOAT:
        config = replace(config, precision=numerics)  # type: ignore[arg-type]
    with source_of(network, activations, batches) as (source, program), warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowKernelWarning)
        extra = [example] if program is None else []
        library = compile(source, *extra, target=target, config=config, progress=lambda *_: None)
    return library, program


@contextlib.contextmanager
def source_of(
    network: nn.Module, activations: str | None, batches: Sequence[Batch]
) -> Iterator[tuple[Any, Callable[..., Any] | None]]:
    """Give what ``compile`` takes for ``network``: with ``activations``, its layers in bytes.

    The second is a program that computes what a module does in bytes; its shapes are fixed. A
    network of an ONNX file in bytes is written to a file, which is gone afterwards.
    """
    if activations is None:
        yield network, None
        return
    if not isinstance(network, OnnxNetwork):
        exported = quantize(network, batches, activations=activations)
        yield exported, exported.module()
        return
    with tempfile.TemporaryDirectory() as directory:
        floats, path = (Path(directory) / f"{name}.onnx" for name in ("model", "bytes"))
        network.save(floats)
        arrays = [{name: to_array(x) for name, x in batch.items()} for batch in batches]
        quantize_onnx(str(floats), arrays, activations=activations, output=path)
        yield str(path), None


def compiled_names(network: nn.Module) -> dict[str, str]:
    """Return the layers of an ONNX file by what they are called once they are compiled.

    Both directions of a recurrent layer are parts of one tensor, and layers in bytes have names of
    :func:`quantize_onnx`.
    """
    found: dict[str, str] = {}
    for name, layer in network.layers.items() if isinstance(network, OnnxNetwork) else ():
        found[f"{layer.stored.value}_quantized"] = name
        direction = layer.layout.direction
        if direction is not None:
            found[f"{layer_name(layer.stored.name)}[{direction}:{direction + 1}]"] = name
    return found


def alike(batches: Sequence[Batch], example: Batch) -> list[Batch]:
    """Return the first pieces of ``batches`` with the shapes of ``example``, or it alone."""
    wanted, structure = pytree.tree_flatten(example)
    found: list[Batch] = []
    for batch in batches:
        leaves, same = pytree.tree_leaves(batch), _form(batch) == _form(example)
        if same and all(map(_fits, leaves, wanted)):
            pieces = zip(*(_pieces(leaf, one) for leaf, one in zip(leaves, wanted, strict=True)))
            found += [pytree.tree_unflatten(list(piece), structure) for piece in pieces]
    return found[:PIECES] or [example]


def _form(batch: Batch) -> Any:
    """Return how a model is called with ``batch``: a tensor and a list of one are the same."""
    return pytree.tree_structure(call_of(batch))


def _fits(leaf: Any, wanted: Any) -> bool:
    """Whether pieces of ``leaf`` have the shape of ``wanted``."""
    if not isinstance(wanted, Tensor):
        return bool(leaf == wanted)
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and leaf.shape[1:] == wanted.shape[1:]


def _pieces(leaf: Any, wanted: Any) -> Sequence[Any]:
    """Return pieces of ``leaf``, each as long as ``wanted``; what is no tensor goes with each."""
    if not isinstance(wanted, Tensor):
        return [leaf] * PIECES
    return [part for part in leaf.split(len(wanted)) if len(part) == len(wanted)]
