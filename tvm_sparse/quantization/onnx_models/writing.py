"""QuantizeLinear, DequantizeLinear and products of integers, written into an ONNX graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_sparse.onnx_files.document import Document
from tvm_sparse.onnx_files.layers import OnnxLayer, Use
from tvm_sparse.onnx_files.operators import CONVOLUTION, attributes
from tvm_sparse.onnx_files.scopes import MOVING
from tvm_sparse.quantization.onnx_models.measured import Bytes, bytes_of, scales_of

_MOVING = ("Flatten", "Identity", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that give back values which they read: rounding before is rounding behind."""


class Writer:
    """Changes the graph of ``document``; values get bytes as ``known`` says."""

    def __init__(
        self, document: Document, known: Mapping[str, Bytes], uses: Sequence[Use] = ()
    ) -> None:
        self.document, self.known = document, known
        self.graph = document.proto.graph
        self._weights = {tensor.name for tensor in self.graph.initializer}
        values = (v.name for v in (*self.graph.input, *self.graph.output))
        outputs = (name for node in self.graph.node for name in node.output)
        self.taken = {*values, *outputs, *(t.name for t in self.graph.initializer)}
        self._rounded = {(id(use.node), use.place.reads) for use in uses}
        self._moving: list[Any] = []
        self._pairs: dict[tuple[str, Bytes], str] = {}
        self._dynamic: dict[str, tuple[str, str, str]] = {}

    def fresh(self, name: str) -> str:
        """Return ``name``, with a number where it is taken."""
        unique, number = name, 1
        while unique in self.taken:
            unique, number = f"{name}_{number}", number + 1
        self.taken.add(unique)
        return unique

    def constant(self, name: str, array: np.ndarray, like: Any = None) -> str:
        """Enter an initializer and return its name."""
        unique = self.fresh(name)
        self.document.add(unique, array, like)
        return unique

    def node(
        self, place: int, operator: str, inputs: Sequence[str], output: str, **given: Any
    ) -> None:
        """Insert a node before number ``place``."""
        from onnx import helper

        name = self.fresh(f"{output}_{operator}")
        made = helper.make_node(operator, list(inputs), [output], name, **given)
        self.graph.node.insert(place, made)

    def activation(self, use: Use) -> None:
        """Let ``use`` read its input as bytes mean it."""
        bytes_ = self.known[use.reads]
        self._round_before(use.reads, bytes_)
        use.node.input[use.place.reads] = self._pair(use.reads, bytes_)

    def _round_before(self, name: str, bytes_: Bytes) -> None:
        """Round what ``name`` is moved from, too, so that the layer that computes it can do it."""
        maker = next((node for node in self.graph.node if name in node.output), None)
        if maker is None or maker.op_type not in _MOVING or len(maker.output) > 1:
            return
        if not self._only_rounded(name) or maker.input[0] in self._weights:
            return
        self._moving.append(maker)  # as long as it is held, its identity is its own
        self._rounded.add((id(maker), 0))
        self._round_before(maker.input[0], bytes_)
        maker.input[0] = self._pair(maker.input[0], bytes_)

    def _only_rounded(self, name: str) -> bool:
        """Whether nothing reads the value ``name`` as it is."""
        if any(value.name == name for value in self.graph.output):
            return False
        return all(
            node.op_type == "QuantizeLinear" or (id(node), place) in self._rounded
            for node in _all_nodes(self.graph)
            for place, read in enumerate(node.input)
            if read == name
        )

    def _pair(self, name: str, bytes_: Bytes) -> str:
        """Return the value ``name`` through bytes, made once."""
        if name in self._pairs.values():
            return name
        key = name, bytes_
        if key not in self._pairs:
            scale = self.constant(f"{name}_scale", np.asarray(bytes_.scale))
            zero = self.constant(f"{name}_zero_point", np.asarray(bytes_.zero, np.uint8))
            within, meant = self.fresh(f"{name}_quantized"), self.fresh(f"{name}_dequantized")
            place = self.behind(name)
            self.node(place, "QuantizeLinear", [name, scale, zero], within)
            self.node(place + 1, "DequantizeLinear", [within, scale, zero], meant)
            self._pairs[key] = meant
        return self._pairs[key]

    def behind(self, name: str) -> int:
        """Return the place behind the node that makes the value ``name``."""
        nodes = enumerate(self.graph.node)
        return next((i + 1 for i, node in nodes if name in node.output), 0)

    def weight(self, layer: OnnxLayer, weight: np.ndarray) -> None:
        """Let the uses of ``layer`` read bytes; ``weight`` has the outputs first."""
        scales, made = scales_of(weight), dict[bool, str]()
        whole, base = bytes_of(weight, scales), layer.stored.value
        scale = self.constant(f"{base}_scale", scales)
        zero = self.constant(f"{base}_zero_point", np.zeros(len(scales), np.int8))
        for use in layer.uses:
            turned = use.place.layout.transposed
            if turned not in made:
                array = whole.T if turned else whole
                stored = self.constant(f"{base}_quantized", array, layer.stored.tensor)
                meant = made[turned] = self.fresh(f"{base}_dequantized")
                axis = 1 if turned else 0
                self.node(0, "DequantizeLinear", [stored, scale, zero], meant, axis=axis)
            use.node.input[use.place.position] = made[turned]

    def dynamic_product(self, layer: OnnxLayer, weight: np.ndarray) -> None:
        """Make products of integers of the uses of ``layer``, scaled by what they read."""
        scales, base = scales_of(weight), layer.stored.value
        scale = self.constant(f"{base}_scale", scales)
        stored = self.constant(f"{base}_quantized", bytes_of(weight, scales).T, layer.stored.tensor)
        for use in layer.uses:
            rounded, found, zero = self._dynamically(use.reads)
            place, output = self.behind(use.node.output[0]), use.node.output[0]
            sums, plain = self.fresh(f"{output}_sums"), self.fresh(f"{output}_float")
            both = self.fresh(f"{output}_scale")
            bias = use.node.input[2] if len(use.node.input) > 2 else ""
            product = self.fresh(f"{output}_product") if bias else output
            self.node(place, "MatMulInteger", [rounded, stored, zero], sums)
            self.node(place + 1, "Cast", [sums], plain, to=1)
            self.node(place + 2, "Mul", [found, scale], both)
            self.node(place + 3, "Mul", [plain, both], product)
            if bias:
                self.node(place + 4, "Add", [product, bias], output)
            del self.graph.node[place - 1]

    def _dynamically(self, name: str) -> tuple[str, str, str]:
        """Return bytes, scale and zero point that ``name`` gets when the model runs, made once."""
        from onnx import helper

        if name not in self._dynamic:
            bytes_, scale = self.fresh(f"{name}_bytes"), self.fresh(f"{name}_found_scale")
            outputs = bytes_, scale, self.fresh(f"{name}_found_zero")
            operator = "DynamicQuantizeLinear"
            label = self.fresh(f"{name}_{operator}")
            node = helper.make_node(operator, [name], outputs, label)
            self.graph.node.insert(self.behind(name), node)
            self._dynamic[name] = outputs
        return self._dynamic[name]

    def drop_unread(self, layers: Sequence[OnnxLayer]) -> None:
        """Remove the float weights of ``layers``, and what only passed them on."""
        wanted = {layer.stored.value for layer in layers}
        for node in self.graph.node:
            if node.op_type in MOVING and wanted.intersection(node.input):
                wanted.update(node.output)
        while True:
            read = {name for node in _all_nodes(self.graph) for name in node.input}
            read |= {value.name for value in self.graph.output}
            dead = [
                place
                for place, node in enumerate(self.graph.node)
                if node.op_type in (*MOVING, "Constant")
                and not read.intersection(node.output)
                and wanted.intersection(node.output)
            ]
            for place in reversed(dead):
                del self.graph.node[place]
            if not dead:
                break
        for place in reversed(range(len(self.graph.initializer))):
            name = self.graph.initializer[place].name
            if name in wanted and name not in read:
                del self.graph.initializer[place]
                for at in reversed(range(len(self.graph.input))):
                    if self.graph.input[at].name == name:
                        del self.graph.input[at]


def _all_nodes(graph: Any) -> list[Any]:
    found, waiting = [], [graph]
    while waiting:
        for node in waiting.pop().node:
            found.append(node)
            for attribute in node.attribute:
                waiting += [attribute.g] if attribute.HasField("g") else attribute.graphs
    return found


def is_plain_product(layer: OnnxLayer) -> bool:
    """Whether integers can be multiplied with scales of their own: rows by a weight, unscaled."""
    return all(
        use.place.sort != CONVOLUTION
        and use.node.op_type in ("MatMul", "Gemm")
        and use.place.position == 1
        and not use.place.turned
        and all(attributes(use.node).get(name, 1.0) == 1.0 for name in ("alpha", "beta"))
        for use in layer.uses
    )
