"""An ONNX file as a network: its layers can be pruned like those of any module."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from tvm_sparse.base.names import matches
from tvm_sparse.errors import InputError
from tvm_sparse.onnx_files.document import Document
from tvm_sparse.onnx_files.layers import OnnxLayer, find_layers
from tvm_sparse.onnx_files.running import Values
from tvm_sparse.onnx_files.scopes import Stored
from tvm_sparse.pruning.layers import LeftOut
from tvm_sparse.pruning.onnx_models.inputs import as_tensors, inputs_of, is_visible, needed
from tvm_sparse.pruning.onnx_models.layers import module_of, to_array


class OnnxNetwork(nn.Module):
    """The layers of an ONNX file, for any function that prunes a module.

    Each layer is a module named after its weight in the file, and holds that weight with the
    outputs first, as PyTorch has it: the gates of recurrent layers are in PyTorch's order, too.
    When the network is called, onnxruntime computes what its layers read; it has no gradients:
    ``ts.OnnxModule`` has them.

    Parameters
    ----------
    source
        The path of an ``.onnx`` file, or a ``ModelProto`` that holds all of its weights.

    Raises
    ------
    InputError
        ``onnx`` is not installed, or the file is missing, damaged or without a layer whose weight
        it has; the message has the reasons.

    Examples
    --------
    >>> network = OnnxNetwork("model.onnx")
    >>> ts.prune.one_shot(network, batches, ts.prune.BalancedPruning(0.75))
    >>> network.save("pruned.onnx")
    """

    def __init__(self, source: Any) -> None:
        super().__init__()
        self.document = source if isinstance(source, Document) else Document(source)
        found = find_layers(self.document)
        if not found.layers:
            reasons = "; ".join(f"{name}: {why}" for name, why in [*found.left.items()][:3])
            raise InputError(
                self.document.name,
                f"no layer whose weight the file has ({reasons or 'none at all'})",
                "a Gemm, MatMul, convolution or recurrent layer",
            )
        self.layers = {layer.name: layer for layer in found.layers}
        for name, layer in self.layers.items():
            # Names of ONNX have dots, which `add_module` refuses, and no modules in between.
            weight = layer.layout.weight(self.document.array(layer.stored.tensor))
            self._modules[name] = module_of(layer, weight)
        for name, reason in found.left.items():
            self._modules.setdefault(name, LeftOut(reason))
        self._held: dict[int, tuple[tuple[Any, ...], np.ndarray]] = {}
        self._values: Values | None = None

    def get_submodule(self, target: str) -> nn.Module:
        """Return a layer; all that is no layer is the network itself."""
        return self._modules.get(target) or self

    def names_of(self, name: str) -> list[str]:
        """Return the layers that ``name``, a glob, means: by their weights, nodes and modules."""
        return [
            layer.name
            for layer in self.layers.values()
            if any(matches(alias, name) for alias in layer.aliases)
        ]

    def values(self) -> Values:
        """Return what computes the values that layers read; copies of the network share it.

        Raises
        ------
        InputError
            onnxruntime is not installed.
        """
        if self._values is None:
            wanted = [name for use, _ in self._calls() for name in needed(use)]
            top = [stored for stored, _ in self.weights() if not stored.inner]
            self._values = Values(self.document, top, dict.fromkeys(wanted))
        return self._values

    def weights(self) -> Iterator[tuple[Stored, np.ndarray]]:
        """Yield each tensor of the file that layers have, and what it holds now."""
        of_tensor: dict[Stored, list[OnnxLayer]] = {}
        for layer in self.layers.values():
            of_tensor.setdefault(layer.stored, []).append(layer)
        for stored, layers in of_tensor.items():
            yield stored, self._stored(stored, layers)

    def _stored(self, stored: Stored, layers: list[OnnxLayer]) -> np.ndarray:
        """Return the values of a tensor, made anew where a layer has changed."""
        modules = [self._modules[layer.name] for layer in layers]
        parts = [t for m in modules if m for t in (*m.parameters(), *m.buffers())]
        state = tuple((id(t), t._version) for t in parts)
        key, array = self._held.get(id(stored), ((), np.empty(0)))
        if key != state:
            array = np.array(self.document.array(stored.tensor))
            for layer, module in zip(layers, modules, strict=True):
                assert module is not None and isinstance(module.weight, Tensor)
                layer.layout.write(to_array(module.weight), array)
            self._held[id(stored)] = state, array
        return array

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Tensor] | None:
        """Call the layers that hooks look at with what they read; without any, return outputs."""
        names = self.document.inputs
        given = dict(zip(names, args, strict=False)) | kwargs
        feeds = {name: to_array(x) for name, x in given.items()}
        uses = [(use, module) for use, module in self._calls() if module._forward_pre_hooks]
        wanted = list(dict.fromkeys(name for use, _ in uses for name in needed(use)))
        if not uses:
            wanted = [value.name for value in self.document.proto.graph.output]
        values = as_tensors(self.read(feeds, wanted))
        if not uses:
            return values
        for use, module in uses:
            kernel = tuple(getattr(module, "kernel_size", ()))
            module(inputs_of(use, kernel, values.__getitem__))
        return None

    def read(
        self, feeds: Mapping[str, np.ndarray], names: Collection[str]
    ) -> dict[str, np.ndarray]:
        """Return values of the graph: inputs of layers, or outputs, with the weights as they are.

        Raises
        ------
        InputError
            onnxruntime is not installed, or does not take the model or the inputs ``feeds``.
        """
        return self.values()({**feeds, **self._top()}, names)

    def _calls(self) -> Iterator[tuple[Any, nn.Module]]:
        """Yield each use of a layer in the order of the graph; not those inside of nodes."""
        place = {id(node): i for i, node in enumerate(self.document.proto.graph.node)}
        pairs = [
            (use, layer.name)
            for layer in self.layers.values()
            for use in layer.uses
            if not use.inner and is_visible(use)
        ]
        for use, name in sorted(pairs, key=lambda pair: place[id(pair[0].node)]):
            module = self._modules[name]
            assert module is not None
            yield use, module

    def _top(self) -> Mapping[str, np.ndarray]:
        return {stored.value: array for stored, array in self.weights() if not stored.inner}

    def save(self, path: str | Path) -> None:
        """Write the file with the weights as they are now, each where it was.

        Weights that were in files beside it are in ``PATH.data`` now. Nothing else changes.

        Raises
        ------
        InputError
            The place cannot be written, or the model's own weights would be lost.
        """
        for stored, array in self.weights():
            if array.tobytes() != self.document.array(stored.tensor).tobytes():
                self.document.replace(stored.tensor, array)
        self.document.save(path)
