"""The layers of a checkpoint, told by names and shapes alone."""

from __future__ import annotations

import re
from pathlib import Path

from tvm_sparse.base.names import layer_of
from tvm_sparse.frontends.files.checkpoint import Checkpoint
from tvm_sparse.frontends.modules.effective import to_numpy
from tvm_sparse.frontends.modules.layer_types import conv_type, matrix_type
from tvm_sparse.frontends.modules.layers import LayerWeight

_TABLE = re.compile(r"embed|\bwte\b|\bwpe\b", re.IGNORECASE)


def tensor_layers(path: Path) -> list[LayerWeight]:
    """Return the layers of the weights in ``path``, each read from the file when asked for.

    A file says nothing of operators. Two axes are taken for a linear layer; if the name says that
    it is an embedding, it is left out. More axes are taken for a convolution, a depthwise one if it
    has one input channel and several outputs.
    """
    file = Checkpoint(path)
    shapes = {name: file.shape(name) for name in file.names}
    return [
        _layer(file, name, shapes)
        for name, shape in shapes.items()
        if len(shape) >= 2 and file.is_floating(name) and not _TABLE.search(name)
    ]


def _layer(file: Checkpoint, name: str, shapes: dict[str, tuple[int, ...]]) -> LayerWeight:
    outputs, inputs, *kernel = shapes[name]
    if kernel:
        depthwise = inputs == 1 and outputs > 1
        layer_type = conv_type(len(kernel), outputs if depthwise else 1, outputs)
    else:
        layer_type = matrix_type(name, shapes)
    return LayerWeight(
        layer_of(name),
        name,
        layer_type,
        lambda: to_numpy(file.tensor(name), name),
        file.storage(name),
    )
