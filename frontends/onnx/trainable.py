"""An ONNX file as a module that PyTorch trains: its graph, run node by node, with gradients."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.onnx.network import Network, Step
from tvm_sparse.frontends.onnx.reader import read_onnx
from tvm_sparse.frontends.onnx.scope import Value, as_tensor
from tvm_sparse.frontends.onnx.weights import take_weights, weight_of
from tvm_sparse.onnx_files.layers import OnnxLayer
from tvm_sparse.onnx_files.layout import Layout
from tvm_sparse.onnx_files.scopes import Scope, Stored, read_scopes
from tvm_sparse.pruning.onnx_models.layers import to_array, to_tensor
from tvm_sparse.pruning.onnx_models.network import OnnxNetwork

_NORM = (1, 2)
_BESIDE = {
    "BatchNormalization": _NORM,
    "Conv": (2,),
    "ConvTranspose": (1, 2),
    "FusedConv": (2,),
    "GRU": (3,),
    "Gemm": (2,),
    "GroupNormalization": _NORM,
    "InstanceNormalization": _NORM,
    "LSTM": (3,),
    "LayerNormalization": _NORM,
    "PRelu": (1,),
    "RNN": (3,),
    "SkipLayerNormalization": (2, 3, 4),
}
"""Inputs that are trained beside the weights of layers. So are rows that ``Add`` adds."""


class OnnxModule(OnnxNetwork):
    """An ONNX file as a PyTorch module, with gradients: it can be pruned, trained and saved.

    Layers are modules as in :class:`.OnnxNetwork`. Biases and the factors of norms are parameters,
    too; statistics of batch norms, embeddings and all other constants stay. A call takes inputs in
    their order or by their names, and returns a dictionary of outputs.

    Any value of the graph can be compared while distilling: ``losses={"/layer1/Add_output_0": 1}``.

    Parameters
    ----------
    source
        The path of an ``.onnx`` file, whose layers are float32.

    Raises
    ------
    InputError
        ``onnx`` is not installed, the file is missing or damaged, has no layer whose weight it
        has, or one that is not float32. When called: an operator is unknown.

    Examples
    --------
    >>> method = ts.prune.BalancedPruning(0.75)
    >>> ts.prune.onnx("model.onnx", method, calibration=batches, output="pruned.onnx")
    >>> student, teacher = ts.OnnxModule("pruned.onnx"), ts.OnnxModule("model.onnx")
    >>> ts.prune.distil(student, teacher, batches, seconds=600)
    >>> student.save("trained.onnx")
    """

    def __init__(self, source: str | Path) -> None:
        super().__init__(source)
        for layer in self.layers.values():
            dtype = self._weight(layer).dtype
            if dtype != torch.float32:
                found = f"layer '{layer.name}' is {str(dtype).removeprefix('torch.')}"
                raise InputError(self.document.name, found, "float32", "train a float32 file")
        proto = read_onnx(Path(source))
        body = Network(proto, take_weights(proto))
        self._body = [body]  # in a list: its nodes are no modules of this one
        names = {id(own): name for own, name in _taken(self.document.proto.graph, proto.graph)}
        places = {name: place for place, name in body.weight_names.items()}
        self._layers_of: dict[str, list[OnnxLayer]] = {}
        for layer in self.layers.values():
            place = places[names[id(layer.stored.tensor)]]
            self._layers_of.setdefault(place, []).append(layer)
        self._beside: list[tuple[Stored, str]] = []
        for stored in _beside(self.document.proto):
            self._beside.append((stored, places[names[id(stored.tensor)]]))
            self._modules[_name(stored)] = _Values(self.document.array(stored.tensor))
        self._makers = {
            value: step
            for step in body.children()
            if isinstance(step, Step)
            for value in step.proto.output
            if value
        }
        self._taps: dict[str, nn.Module] = {}
        for use, module in self._calls():
            self._tap(next(filter(None, use.node.output)), module)

    def _weight(self, layer: OnnxLayer) -> Tensor:
        weight = self._modules[layer.name].weight  # type: ignore[union-attr]
        assert isinstance(weight, Tensor)
        return weight

    def _row(self, stored: Stored) -> nn.Parameter:
        found = self._modules[_name(stored)]
        assert isinstance(found, _Values)
        return found.values

    def _tap(self, value: str, module: nn.Module) -> None:
        """Call ``module`` with ``value`` whenever it is computed and somebody looks at that."""
        self._makers[value].register_forward_hook(partial(_through, value, module))

    def get_submodule(self, target: str) -> nn.Module:
        """Return a layer, what a value of the graph passes through, or for ``""`` the module.

        Raises
        ------
        AttributeError
            There is nothing of this name.
        """
        found = self._modules.get(target) or self._taps.get(target)
        if found is None and target in self._makers:
            found = self._taps[target] = nn.Identity()
            self._tap(target, found)
        if found is not None:
            return found
        if target and not any(name.startswith(f"{target}.") for name in self._modules):
            raise AttributeError(f"no layer and no value is called {target}")
        return self

    def weights(self) -> Iterator[tuple[Stored, np.ndarray]]:
        """Yield each tensor of the file that is trained, and what it holds now."""
        yield from super().weights()
        for stored, _ in self._beside:
            yield stored, to_array(self._row(stored))

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Tensor] | None:
        """Return the outputs by name; for hooks before layers, see :class:`.OnnxNetwork`."""
        if any(self._modules[name]._forward_pre_hooks for name in self.layers):  # type: ignore[union-attr]
            return super().forward(*args, **kwargs)
        (body,) = self._body
        given = dict(zip(body.input_names, args, strict=False)) | kwargs
        if len(args) > len(body.input_names) or given.keys() != {*body.input_names}:
            found, wanted = ", ".join(given) or "none", ", ".join(body.input_names)
            raise InputError(f"inputs of {self.document.name}", f"{found} in {len(args)}", wanted)
        inputs = tuple(torch.as_tensor(given[name]) for name in body.input_names)
        outputs = functional_call(body, dict(self._tensors()), inputs)
        return dict(zip(body.output_names, outputs, strict=True))

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield what the nodes read instead of what the file has, by its place in the body."""
        for stored, place in self._beside:
            yield place, self._row(stored)
        for place, layers in self._layers_of.items():
            whole = self._body[0].get_buffer(place)
            yield place, _assembled([(layer, self._weight(layer)) for layer in layers], whole)


class _Values(nn.Module):
    """A tensor of the file that is trained, and is no layer."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__()
        self.values = nn.Parameter(to_tensor(array).clone())


def _name(stored: Stored) -> str:
    """Return the name of a tensor's module: layers have others, without ``of``."""
    return f"of {stored.value}"


def _through(value: str, module: nn.Module, _step: nn.Module, args: Any, _output: Any) -> None:
    """Let ``value`` pass through ``module`` if that has hooks."""
    env: dict[str, Value] = args[0]
    if module._forward_hooks:
        env[value] = module(as_tensor(env[value], f"value '{value}'"))


def _taken(own: Any, other: Any) -> Iterator[tuple[Any, str]]:
    """Yield tensors of ``own`` with the names by which ``other``, a copy, had them taken out."""
    pairs = [*zip(own.initializer, other.initializer, strict=False)]
    for node, copied in zip(own.node, other.node, strict=True):
        for one, two in zip(node.attribute, copied.attribute, strict=True):
            if one.HasField("t"):
                pairs.append((one.t, two.t))
            graphs = [(one.g, two.g)] if one.HasField("g") else zip(one.graphs, two.graphs)
            for graph, copy in graphs:
                yield from _taken(graph, copy)
    for tensor, copy in pairs:
        yield tensor, weight_of(copy) or copy.name


@lru_cache(maxsize=256)
def _places(layout: Layout, shape: torch.Size) -> Tensor:
    """Return where each element of a weight is in its stored tensor."""
    numbers = np.arange(shape.numel()).reshape(shape)
    return torch.from_numpy(np.ascontiguousarray(layout.weight(numbers))).reshape(-1)


def _assembled(layers: list[tuple[OnnxLayer, Tensor]], stored: Tensor) -> Tensor:
    """Return ``stored`` with the weights of ``layers`` in their places."""
    (first, weight), *others = layers
    if not others and first.layout in (Layout(), Layout(transposed=True)):
        return weight.mT if first.layout.transposed else weight
    result = stored.reshape(-1)
    for layer, own in layers:
        result = result.index_copy(0, _places(layer.layout, stored.shape), own.reshape(-1))
    return result.reshape(stored.shape)


def _beside(proto: Any) -> Iterator[Stored]:
    """Yield the biases and factors that only nodes read which train them."""
    from onnx import TensorProto

    for scope in {id(scope): scope for scope, _ in read_scopes(proto)}.values():
        if scope.parent is not None:
            continue
        for stored in scope.stored.values():
            readers = scope.readers.get(stored.value, [])
            known = all(_trains(scope, stored, reader.node, reader.position) for reader in readers)
            if stored.tensor.data_type == TensorProto.FLOAT and readers and known:
                yield stored


def _trains(scope: Scope, stored: Stored, node: Any, position: int) -> bool:
    if node is None:
        return False
    if node.op_type == "Add":
        other = node.input[1 - position]
        return len(stored.tensor.dims) == 1 and stored.tensor.dims[0] > 1 and other in scope.makers
    return position in _BESIDE.get(node.op_type, ())
