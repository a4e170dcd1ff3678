"""The layers of an ONNX model whose weights the file has, and why others have none to prune."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tvm_sparse.onnx_files.document import Document
from tvm_sparse.onnx_files.layout import Layout
from tvm_sparse.onnx_files.moves import moved_weight
from tvm_sparse.onnx_files.names import label, layer_name, node_names
from tvm_sparse.onnx_files.operators import (
    CONVOLUTION,
    PRODUCT,
    QUANTIZED,
    RECURRENT,
    Place,
    places_of,
)
from tvm_sparse.onnx_files.origins import origin, stored_behind, types_behind
from tvm_sparse.onnx_files.scopes import Scope, Stored, read_scopes


@dataclass(frozen=True, eq=False)
class Use:
    """A node that multiplies by a weight; ``inner`` ones belong to a graph inside of a node.

    ``types`` are those that the weight is cast to before.
    """

    node: Any
    place: Place
    layout: Layout
    inner: bool
    types: frozenset[int] = frozenset()

    @property
    def reads(self) -> str:
        """The value that the weight is multiplied by."""
        name: str = self.node.input[self.place.reads]
        return name


@dataclass(frozen=True, eq=False)
class OnnxLayer:
    """A weight of a file, with the nodes that multiply by it, in their order.

    ``name`` is the tensor's, without ``.weight``; ``aliases`` are all names that mean the layer.
    """

    name: str
    stored: Stored
    layout: Layout
    uses: tuple[Use, ...]
    aliases: frozenset[str]

    def __deepcopy__(self, memo: object) -> OnnxLayer:
        """Return the layer itself: copies of a network mean the same file."""
        return self


@dataclass(frozen=True)
class Found:
    """The layers of a model in order, and by name the reasons why others have no weight."""

    layers: tuple[OnnxLayer, ...]
    left: dict[str, str]


@dataclass
class _Weight:
    """A stored tensor that nodes may multiply by."""

    scope: Scope
    stored: Stored
    uses: list[Use] = field(default_factory=list)


def find_layers(document: Document) -> Found:
    """Return the layers of ``document``."""
    weights: dict[int, _Weight] = {}
    left: dict[str, str] = {}
    functions = {function.name for function in document.proto.functions}
    for scope, node in read_scopes(document.proto):
        if node.op_type in functions:
            left.update(_in_functions(scope, node))
        elif reason := _unweighted(node):
            left[label(node)] = reason
        for place, home, stored, layout in _read_by(scope, node, left):
            weight = weights.setdefault(id(stored), _Weight(home, stored))
            types = frozenset(types_behind(scope, node.input[place.position]))
            weight.uses.append(Use(node, place, layout, scope.parent is not None, types))
    layers: list[OnnxLayer] = []
    for weight in weights.values():
        reason = next(_reasons(weight), "")
        if reason:
            left.setdefault(layer_name(weight.stored.name), reason)
        else:
            layers += _layers(weight, {layer.name for layer in layers})
    return Found(tuple(layers), left)


def _unweighted(node: Any) -> str:
    """Return why ``node`` has no weight to prune though it is a layer, ``""`` for no such."""
    if node.op_type == "ConvTranspose":
        return "a transposed conv, which no method prunes"
    whole = node.op_type in QUANTIZED and node.op_type != "DequantizeLinear"
    return "its weight is quantized" if whole else ""


def _in_functions(scope: Scope, node: Any) -> Iterator[tuple[str, str]]:
    for name in node.input:
        found = stored_behind(scope, name)
        if found is not None and len(found[1].tensor.dims) > 1:
            yield layer_name(found[1].name), f"is read in the function {node.op_type}, not a layer"


def _read_by(
    scope: Scope, node: Any, left: dict[str, str]
) -> Iterator[tuple[Place, Scope, Stored, Layout]]:
    """Yield the weights that ``node`` multiplies by; enter into ``left`` why it has none."""
    places = [p for p in places_of(node) if p.position < len(node.input)]
    found = {p.position: stored_behind(scope, node.input[p.position]) for p in places}
    if len(found) > 1 and places[0].sort == PRODUCT and all(found.values()):
        return  # no activation is multiplied
    for place in places:
        behind = found[place.position]
        if behind is not None:
            home, stored, turned = behind
            yield place, home, stored, place.layout.turned() if turned else place.layout
            continue
        maker = origin(scope, node.input[place.position])
        moved = moved_weight(scope, node.input[place.position], place) if maker else None
        if moved is not None:
            yield place, *moved
        elif maker is not None and not any(found.values()):
            computed = f"its weight is computed ({maker.op_type}), not a tensor of the file"
            whole = maker.op_type in QUANTIZED
            left.setdefault(label(node), "its weight is quantized" if whole else computed)


def _reasons(weight: _Weight) -> Iterator[str]:
    """Yield why ``weight`` cannot be pruned; the first reason tells most."""
    from onnx import TensorProto

    tensor, first = weight.stored.tensor, weight.uses[0]
    floats = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16
    rank = len(tensor.dims)
    if tensor.data_type not in floats:
        yield "its weight is no floating point of 16 bits or more"
    elif first.layout.places is not None:
        pass  # what the node reads has been looked at
    elif not (3 <= rank <= 5 if first.place.sort == CONVOLUTION else rank == first.place.rank):
        yield f"its weight has {rank} axes"
    elif 0 in tensor.dims:
        yield "its weight has no elements"
    elif first.place.sort == RECURRENT and not _whole_gates(weight):
        yield "the shape of its weight is not that of its gates"
    layouts = [{use.layout for use in weight.uses if use.node is node} for node in _nodes(weight)]
    if any(layout != layouts[0] for layout in layouts):
        yield "its weight is read as it is and transposed"
    known = {(id(use.node), use.place.position) for use in weight.uses}
    for reader in weight.scope.ends(weight.stored.value):
        if reader.node is None:
            yield "its weight is an output, too"
        elif (id(reader.node), reader.position) not in known:
            yield f"its weight is read by {label(reader.node)} ({reader.node.op_type}), too"


def _nodes(weight: _Weight) -> list[Any]:
    return list({id(use.node): use.node for use in weight.uses}.values())


def _whole_gates(weight: _Weight) -> bool:
    """Whether the tensor has as many matrices and gates as its readers want."""
    directions, rows, _ = weight.stored.tensor.dims
    return all(
        directions == 1 + max(u.layout.direction or 0 for u in weight.uses)
        and rows % len(use.layout.gates) == 0
        for use in weight.uses
    )


def _layers(weight: _Weight, taken: set[str]) -> Iterator[OnnxLayer]:
    """Yield the layers of a tensor: one, or one for each direction of a recurrent layer."""
    layouts = list(dict.fromkeys(use.layout for use in weight.uses))
    stored = weight.stored
    for layout in layouts:
        uses = tuple(use for use in weight.uses if use.layout == layout)
        ending = "" if len(layouts) == 1 else ("_forward", "_reverse")[layout.direction or 0]
        name, number = layer_name(stored.name) + ending, 1
        while name in taken:
            name, number = f"{layer_name(stored.name)}{ending}_{number}", number + 1
        known = (name, f"{name}.weight", stored.name, stored.value)
        aliases = frozenset((*known, *(n for use in uses for n in node_names(use.node))))
        yield OnnxLayer(name, stored, layout, uses, aliases)
