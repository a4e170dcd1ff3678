"""What the operations of a traced network do to channels that are zero."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.pruning.layers import sort_of

NORM, KEEPS_ZERO, MOVES_ZERO, POOL, FLATTEN = "norm", "keeps zero", "moves zero", "pool", "flatten"
ADD, MUL, CONSTANT, INPUT, OUTPUT, OTHER = "add", "mul", "constant", "input", "output", "other"

_NAMES = {
    KEEPS_ZERO: "relu relu6 leakyrelu leaky_relu prelu elu celu selu silu gelu mish tanh hardswish "
    " identity dropout dropout2d stochasticdepth stochastic_depth droppath maxpool2d "
    "max_pool2d avgpool2d avg_pool2d zeropad2d pad contiguous clone float",
    MOVES_ZERO: "sigmoid hardsigmoid softmax softplus",
    POOL: "adaptiveavgpool2d adaptive_avg_pool2d adaptivemaxpool2d adaptive_max_pool2d mean",
    FLATTEN: "flatten",
    ADD: "add iadd",
    MUL: "mul imul",
    CONSTANT: "size dim getattr",
}
_OPERATION_OF = {name: operation for operation, names in _NAMES.items() for name in names.split()}


class _Tracer(fx.Tracer):
    """Keeps every layer whole, also those that other packages derive from torch's."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        layer = isinstance(m, _ConvNd | nn.Linear | _BatchNorm)
        return layer or super().is_leaf_module(m, module_qualified_name)


def trace(model: nn.Module) -> fx.Graph:
    """Return the operations of ``model``, layers whole.

    Raises
    ------
    UnsupportedError
        If ``torch.fx`` cannot follow the forward pass.
    """
    try:
        return _Tracer().trace(model)
    except Exception as error:
        raise UnsupportedError(
            type(model).__name__,
            f"its structure cannot be traced ({type(error).__name__}: {error})",
            "a forward pass that torch.fx can follow",
            "prune the submodule that holds the blocks, or move control flow on data out of it",
        ) from error


def label_of(node: fx.Node, modules: Mapping[str, nn.Module]) -> str:
    """Return the operation's name in lower case: ``"silu"`` for ``nn.SiLU`` and ``F.silu``."""
    if node.op == "call_module":
        return type(modules[str(node.target)]).__name__.lower()
    return str(getattr(node.target, "__name__", node.target)).lower()


def operation_of(node: fx.Node, modules: Mapping[str, nn.Module]) -> str:
    """Return one of the operations above, or the sort of layer (:func:`..layers.sort_of`)."""
    fixed = {"placeholder": INPUT, "output": OUTPUT, "get_attr": CONSTANT}
    if node.op in fixed:
        return fixed[node.op]
    if node.op == "call_module":
        module = modules[str(node.target)]
        sort = sort_of(module)
        if sort is not None:
            return sort
        if isinstance(module, _BatchNorm):
            return NORM
    label = label_of(node, modules)
    if label == "pad" and (len(node.args) > 3 or node.kwargs.get("value")):
        return MOVES_ZERO
    if label in ("view", "reshape") and len(node.args) == 3 and node.args[2] == -1:
        return FLATTEN
    return _OPERATION_OF.get(label, OTHER)
