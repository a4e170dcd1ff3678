"""What every frontend returns: a Relax module, its weights by name, its inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.names import printable
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.program.multiples import noted, spelled_out
from tvm_sparse.passes.finish.raise_assertions import ASSERTED
from tvm_sparse_runtime.extents import names
from tvm_sparse_runtime.spec import TensorSpec
from tvm_sparse_runtime.structure import Structure


@dataclass(frozen=True)
class Model:
    """An imported model, ready for the passes.

    Parameters
    ----------
    module
        Relax module with ``main(*inputs, *weights) -> Tuple(*outputs)``; its attribute
        ``num_input`` is the number of inputs. Weights that nothing reads are left out.
    weights
        Parameters, buffers and constants by fully qualified name, in the order of ``main``'s
        parameters after the inputs. The arrays may share memory with the caller's model and must
        not be written to.
    inputs, outputs
        Name, shape and dtype of each; a dynamic extent is the name of its symbol.
    structure
        How the model nests them; None if it takes tensors and returns one, or a tuple of several.
    output_spec
        PyTorch's record of the classes of the output; None where ``structure`` is.
    notes
        What reports say of a layer besides, by its name.
    ranges
        Why symbols have narrower ranges than was asked for, a phrase each.
    uncast
        Whether blocks of ``torch.autocast("cuda")`` cast nothing, since it was not imported for it.
    extents
        What symbols are in the example inputs: what suits these is chosen.
    """

    module: tvm.IRModule = field(repr=False)
    weights: dict[str, np.ndarray] = field(repr=False)
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    structure: Structure | None = None
    output_spec: Any = field(default=None, repr=False)
    notes: dict[str, str] = field(default_factory=dict, repr=False)
    ranges: tuple[str, ...] = field(default=(), repr=False)
    uncast: bool = field(default=False, repr=False)
    extents: dict[str, int] = field(default_factory=dict, repr=False)

    @property
    def bounds(self) -> dict[str, tuple[int, int | None]]:
        """Smallest and largest extent of each symbol in the inputs' shapes; None for no limit."""
        attrs = dict(self.module["main"].attrs)
        low, high = (
            {str(name): int(value) for name, value in dict(attrs.get(key, {})).items()}
            for key in ("tir_var_lower_bound", "tir_var_upper_bound")
        )
        extents = (d for spec in self.inputs for d in spec.shape if isinstance(d, str))
        symbols = {name for extent in extents for name in names(extent)}
        known = sorted(symbols & (low.keys() | high.keys()))
        return {name: (low.get(name, 0), high.get(name)) for name in known}


def build(
    module: tvm.IRModule,
    weights: dict[str, tuple[str, np.ndarray]],
    output_names: tuple[str, ...] = (),
    asserted: Sequence[str] = (),
) -> Model:
    """Return ``module`` as a :class:`Model`.

    Parameters
    ----------
    module
        Relax module whose ``main`` takes ``num_input`` inputs and then weights.
    weights
        Fully qualified name and value of each weight by the name of its parameter of ``main``;
        those that ``main`` reads nowhere are dropped, from the function too.
    output_names
        Names of the outputs; numbered names are used when empty.
    asserted
        What is told where one of the last results, which are no outputs, is false.

    Raises
    ------
    UnsupportedError
        An input or output is not a tensor.
    """
    function = module["main"]
    count = int(function.attrs["num_input"])
    inputs, rest = list(function.params[:count]), list(function.params[count:])
    used = set(relax.analysis.free_vars(function.body))
    rest = [p for p in rest if p in used]
    body, returned = function.body, function.ret_ty
    if not isinstance(returned, relax.TupleType):
        body = relax.SeqExpr(body.blocks, relax.Tuple([body.body]))
        returned = relax.TupleType([returned])
    fields = list(returned.fields)
    fields = fields[: len(fields) - len(asserted)]
    multiples = noted(function)
    if not output_names:
        output_names = tuple(f"output_{i}" for i in range(len(fields)))
    trimmed = relax.Function(
        [*inputs, *rest], body, returned, function.is_pure, function.attrs
    ).without_attr("params")
    if asserted:
        trimmed = trimmed.with_attr(ASSERTED, list(asserted))
    result = tvm.IRModule(dict(module.functions.items()), attrs=module.attrs)
    result.update_func(result.get_global_var("main"), trimmed)
    return Model(
        result,
        {printable(name): value for name, value in (weights[p.name] for p in rest)},
        tuple(_spec(p.name, p.ty, "input", multiples) for p in inputs),
        tuple(_spec(n, t, "output", multiples) for n, t in zip(output_names, fields, strict=True)),
    )


def _spec(
    name: str, type_: Any, role: str, multiples: Mapping[str, tuple[str, int, int]]
) -> TensorSpec:
    if not isinstance(type_, relax.TensorType) or type_.shape is None:
        raise UnsupportedError(f"{role} '{name}'", f"has type {type_}", "a tensor of known shape")
    extents = [spelled_out(d, multiples) for d in type_.shape]
    shape = tuple(int(d) if isinstance(d, tvm.tirx.IntImm) else _symbol(d) for d in extents)
    return TensorSpec(printable(name), shape, str(type_.dtype))


def _symbol(extent: Any) -> str:
    if isinstance(extent, tvm.tirx.Var):
        return str(extent.name)  # printed, one that is called T would be T_1
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(extent))
