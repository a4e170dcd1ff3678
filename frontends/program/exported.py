"""ExportedProgram as a model: names kept, weights as parameters, errors that name the layer."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument

from tvm_sparse.base.words import aside, said
from tvm_sparse.errors import InputError, SparseError
from tvm_sparse.frontends.alone import ALONE
from tvm_sparse.frontends.converters.corrected import known_operators, make_importer
from tvm_sparse.frontends.decompositions import decompositions
from tvm_sparse.frontends.example_inputs import told_apart
from tvm_sparse.frontends.model import Model, build
from tvm_sparse.frontends.modules.effective import inference_copy, is_sparse, to_numpy
from tvm_sparse.frontends.modules.untraced import meaning
from tvm_sparse.frontends.program.agreement import agree, tensors_of
from tvm_sparse.frontends.program.assertions import assert_tensors, asserted_last
from tvm_sparse.frontends.program.autocast import left_out, with_casts
from tvm_sparse.frontends.program.closed_numbers import fold_closed_numbers
from tvm_sparse.frontends.program.complex_numbers import replace_complex
from tvm_sparse.frontends.program.computed_weights import compute_weights
from tvm_sparse.frontends.program.conditions import (
    assert_conditions,
    bounded,
    conditions_of,
)
from tvm_sparse.frontends.program.copied import copied
from tvm_sparse.frontends.program.decided_extents import OpenExtents, layouts_undecided
from tvm_sparse.frontends.program.extent_names import renamed
from tvm_sparse.frontends.program.float8_weights import widen_float8_weights
from tvm_sparse.frontends.program.half_precision import widen_halves
from tvm_sparse.frontends.program.in_place import without_writes
from tvm_sparse.frontends.program.indices import bound_indices, wrap_negative_indices
from tvm_sparse.frontends.program.inlined import without_inner_graphs
from tvm_sparse.frontends.program.known_shapes import KnownShapes
from tvm_sparse.frontends.program.left_float import left_float
from tvm_sparse.frontends.program.memory_layout import refuse_unknown_layouts
from tvm_sparse.frontends.program.multiples import MULTIPLES
from tvm_sparse.frontends.program.one_division import OneDivision
from tvm_sparse.frontends.program.ones import unlike_at_one, without_zeros
from tvm_sparse.frontends.program.own_copies import without_own_copies
from tvm_sparse.frontends.program.promotion import fill_empty, promote_operands
from tvm_sparse.frontends.program.read_numbers import keep_numbers_tensors
from tvm_sparse.frontends.program.refusals import (
    refuse_decided_shapes,
    refuse_inaccurate,
    refuse_random,
    refuse_state,
)
from tvm_sparse.frontends.program.symbol_names import with_symbol_names
from tvm_sparse.frontends.program.taken_apart import taken_apart
from tvm_sparse.frontends.program.told_ranges import told_ranges
from tvm_sparse.frontends.program.whole_quotients import WholeQuotients
from tvm_sparse.frontends.program.written_inputs import warn_of_written_inputs, written_roots
from tvm_sparse.frontends.program.zero_divisors import refuse_zero_divisors
from tvm_sparse.frontends.quiet import quiet
from tvm_sparse.frontends.structure import is_flat, structure_of, without_structure
from tvm_sparse.passes.graph.builders import blocks_ended
from tvm_sparse_runtime.structure import paths

OPEN_EXTENTS = "tvm_sparse.open_extents"
"""Where a program that is ours has the names of its open extents: the ``meta`` of its module."""

_REMEDY = (
    "a program of operators that the page 'Supported operators' lists",
    "compile parts of it to find the one that fails",
)


def from_exported(
    program: torch.export.ExportedProgram,
    symbols: Sequence[Mapping[int, str]] | None = None,
    steps: Mapping[str, int] | None = None,
) -> Model:
    """Import ``program``; parameters, buffers and constants become weights by their names.

    ``symbols`` names the symbolic extents of each input by their axes. Without it a symbol that is
    alone in the leading extents is called ``batch``; what :func:`tvm_sparse.quantize` makes has
    the names itself. ``steps`` says of which number a symbol of the program is a multiple, by its
    name; the multiple is then called by the name of the axis.

    Raises
    ------
    InputError
        An operator cannot be imported (the message names its layer), or an output is no tensor.
    """
    symbols = symbols or program.graph_module.meta.get(OPEN_EXTENTS)
    try:
        with ALONE:
            return _imported(program, symbols, steps)
    except SparseError as error:
        raise renamed(error, program) from error.__cause__
    except Warning:  # a filter of the caller's made an error of it
        raise
    except Exception as error:  # of PyTorch and of TVM, for a program that is none
        found, *rest = meaning(error) or (said(error), *_REMEDY)
        raise InputError("model", f"cannot be imported{aside(found)}", *rest) from error


def _imported(
    program: torch.export.ExportedProgram,
    symbols: Sequence[Mapping[int, str]] | None,
    steps: Mapping[str, int] | None,
) -> Model:
    asked = conditions_of(program)
    program = without_writes(without_inner_graphs(without_own_copies(program)))
    written = written_roots(program)
    refuse_state(program, written)
    warn_of_written_inputs(program, written)
    refuse_inaccurate(program)
    refuse_unknown_layouts(program)
    uncast = left_out(program)
    with quiet(), layouts_undecided(), WholeQuotients():
        program = with_casts(program)
    structure, output_spec = structure_of(program), program.call_spec.out_spec
    names = tuple(_output_names(structure.output))
    if not names:
        raise InputError("model", "returns no tensor", "at least one")
    notes = left_float(program)
    with quiet():
        program, narrowing, conditions = bounded(program, [*asked, *unlike_at_one(program)])
        program = without_zeros(program)
    with quiet(), layouts_undecided(), OneDivision(), WholeQuotients(), KnownShapes():
        program = _without_sparse_tensors(program)
        opened = OpenExtents(program, compared=True)
        program = _decomposed(program, opened)
        refuse_zero_divisors(program)
        compute_weights(program)
    _rewrite(program)
    importer = make_importer(program, steps)
    tensors = tensors_of(program)
    wrap_negative_indices(program, tensors)
    refuse_decided_shapes(program)
    _drop_constant_outputs(program)
    left = assert_conditions(program, conditions)
    asserted = [*asserted_last(program), *left]
    with blocks_ended(importer, "block_builder"):
        module = importer.from_exported_program(_view(program, tensors), True, False, False, None)
    if importer.multiples:
        main = module["main"].with_attr(MULTIPLES, importer.multiples)
        module.update_func(module.get_global_var("main"), main)
    opened.check("an operator")
    module = bound_indices(with_symbol_names(module, symbols))
    weights = {
        spec.arg.name: (spec.target, to_numpy(tensors[spec.target], spec.target))
        for spec in program.graph_signature.input_specs
        if spec.kind is not InputKind.USER_INPUT
    }
    model = build(module, weights, names, asserted)
    ranges = told_ranges(model, program, narrowing)
    model = replace(model, notes=notes, uncast=uncast, ranges=(*ranges, *left))
    _check_outputs(model, program)
    if is_flat(structure, [spec.name for spec in model.inputs]):
        return model
    return replace(model, structure=structure, output_spec=output_spec)


def _decomposed(
    program: torch.export.ExportedProgram, opened: OpenExtents
) -> torch.export.ExportedProgram:
    """Return ``program`` in operators that have converters; its extents stay ``opened``."""
    table = opened.watched(decompositions(known_operators()))
    whole = _without_views(without_structure(program))
    try:
        result = taken_apart(whole, table)
    except SparseError as error:  # PyTorch appends the node to its text
        raise type(error)(error.where, error.found, error.expected, error.todo) from error
    opened.compare(functools.partial(agree, whole, result))
    return result


def _rewrite(program: torch.export.ExportedProgram) -> None:
    """Write the operators of ``program``, which is ours, as the importer reads them right."""
    fold_closed_numbers(program)
    widen_float8_weights(program)
    refuse_random(program)
    assert_tensors(program)
    keep_numbers_tensors(program)
    replace_complex(program)
    fill_empty(program)
    promote_operands(program)
    widen_halves(program)


def _without_sparse_tensors(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` with sparse parameters written out, which no decomposition can read."""
    sparse = [name for name, value in tensors_of(program).items() if is_sparse(value)]
    if not sparse:
        return program
    if program.example_inputs is None or program.range_constraints:
        raise InputError(
            f"weight '{sparse[0]}'",
            "is a sparse tensor in a program of dynamic shapes or without example inputs",
            "dense tensors",
            "pass the module instead, or export it with dense weights: their zeros are found",
        )
    module = inference_copy(program.module())
    args, kwargs = told_apart(module, program.example_inputs)
    return torch.export.export(module, args, kwargs)


def _check_outputs(model: Model, program: torch.export.ExportedProgram) -> None:
    """Refuse an import whose outputs are not of the type that PyTorch says they are."""
    (returned,) = program.graph.output_node().args
    wanted = [node.meta["val"] for node in returned[-len(model.module["main"].ret_ty.fields) :]]
    for spec, value in zip(model.outputs, wanted, strict=False):
        dtype = str(value.dtype).removeprefix("torch.")
        pairs = list(zip(spec.shape, value.shape, strict=False))
        differ = any(a != b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
        if differ or len(spec.shape) != value.dim() or spec.dtype != dtype:
            raise InputError(
                f"output '{spec.name}'",
                f"was imported as {spec}",
                f"{dtype}{list(value.shape)}",
                "report this model, TVM's importer gets one of its operators wrong",
            )


def _without_views(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` with reshapes for views.

    What a view takes may lie in memory otherwise once it is computed by a decomposition of ours.
    """
    view = torch.ops.aten.view.default
    if not any(node.target is view for node in program.graph.nodes):
        return program
    result = copied(program)
    for node in result.graph.find_nodes(op="call_function", target=view):
        node.target = torch.ops.aten.reshape.default
    result.graph_module.recompile()
    return result


def _view(program: torch.export.ExportedProgram, tensors: dict[str, torch.Tensor]) -> Any:
    """Return what the importer reads of ``program``, with all tensors as plain parameters.

    The importer would bind buffers and constants as Relax constants and attach a copy of all
    parameters; as parameters they stay outside the graph, shared and named.
    """
    specs = []
    for spec in program.graph_signature.input_specs:
        if isinstance(spec.arg, ConstantArgument):
            continue
        if spec.kind is InputKind.USER_INPUT:
            specs.append(spec)
        elif isinstance(spec.arg, TensorArgument):
            specs.append(
                SimpleNamespace(kind=InputKind.PARAMETER, arg=spec.arg, target=spec.target)
            )
        else:
            raise InputError(f"constant '{spec.target}'", f"is a {type(spec.arg).__name__}")
    signature = SimpleNamespace(
        input_specs=specs, output_specs=program.graph_signature.output_specs
    )
    return SimpleNamespace(
        graph=program.graph,
        graph_module=program.graph_module,
        graph_signature=signature,
        range_constraints=program.range_constraints,
        state_dict=tensors,
        constants={},
        named_buffers=tuple,
        named_parameters=tuple,
    )


def _drop_constant_outputs(program: torch.export.ExportedProgram) -> None:
    """Remove outputs that are no tensors from ``program``, which is ours."""
    specs = program.graph_signature.output_specs
    node = program.graph.output_node()
    pairs = list(zip(node.args[0], specs, strict=True))
    keep = [(arg, spec) for arg, spec in pairs if not isinstance(spec.arg, ConstantArgument)]
    node.args = (tuple(arg for arg, _ in keep),)
    specs[:] = [spec for _, spec in keep]


def _output_names(output: Any) -> list[str]:
    """Return a name for each tensor of a result: its keys in the nesting, or ``output``."""
    names = ["_".join(path) or "output" for path, leaf in paths(output) if isinstance(leaf, int)]
    return [f"output_{name}" if name[0].isdigit() else name for name in names]
