"""Functions that are equal but for numbers become one, which is given the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, relax, s_tir, tirx

from tvm_sparse.ops.emit import changed_block
from tvm_sparse.passes.finish.lift_weights import NUMBERS
from tvm_sparse.passes.finish.stored_numbers import WORD, change_numbers, number_at, word_of
from tvm_sparse.passes.graph.called import arguments_of, calling
from tvm_sparse.passes.graph.rewrite import constant


@dataclass
class _Alike:
    """Functions that are equal but for numbers: their variables, and the words of each."""

    skeleton: tirx.PrimFunc
    members: list[tuple[ir.GlobalVar, list[int]]] = field(default_factory=list)

    def columns(self) -> list[tuple[int, ...]]:
        """Return the words at each place, a word a member."""
        return list(zip(*(words for _, words in self.members), strict=True))

    def varying(self) -> list[tuple[int, ...]]:
        """Return the columns that differ between members, each once."""
        return [column for column in dict.fromkeys(self.columns()) if len(set(column)) > 1]


@tvm.transform.module_pass(opt_level=0, name="ShareFunctions")
@dataclass(frozen=True)
class ShareFunctions:
    """Let calls of functions that differ only in numbers call one, with the numbers as a tensor.

    before: ``y = call_tir(f, x); z = call_tir(g, y)``, where ``f`` stores ``2 x`` and ``g`` ``3 x``
    after:  ``y = call_tir(f, (x, [2])); z = call_tir(f, (y, [3]))``

    Equal layers of a quantized network differ in their scales and zero points only. A number that
    all of them have stays in the code, so what it simplifies stays simple.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer functions; each has the name of the first that is called."""
        functions = dict(mod.functions_items())
        instead: dict[str, tuple[ir.GlobalVar, Any]] = {}
        arguments = arguments_of(mod)
        for alike in _groups(mod, arguments):
            if len(alike.members) == 1:
                continue
            first, varying = alike.members[0][0], alike.varying()
            shared, func = first, functions[first]
            if varying:
                func = _shared(alike, functions[first], arguments[first.name_hint])
                shared = ir.GlobalVar(first.name_hint)
                relax.expr._update_type(shared, func.ty)
            for member, (var, _) in enumerate(alike.members):
                del functions[var]
                words = np.array([column[member] for column in varying], WORD)
                instead[var.name_hint] = shared, constant(words, NUMBERS) if varying else None
            functions[shared] = func
        if not instead:
            return mod

        def shares(name: str, operands: Sequence[Any]) -> tuple[ir.GlobalVar, list[Any]] | None:
            if name not in instead:
                return None
            shared, numbers = instead[name]
            return shared, [*operands, *([] if numbers is None else [numbers])]

        return calling(tvm.IRModule(functions, attrs=mod.attrs), shares)


def _groups(mod: tvm.IRModule, names: Iterable[str]) -> Iterable[_Alike]:
    """Return the functions of ``names``, those that are alike together."""
    found: dict[int, list[_Alike]] = {}
    for name in names:
        var = mod.get_global_var(name)
        skeleton, words = _skeleton(mod[var])
        same = found.setdefault(tvm_ffi.structural_hash(skeleton), [])
        for alike in same:
            if tvm_ffi.structural_equal(alike.skeleton, skeleton):
                alike.members.append((var, words))
                break
        else:
            same.append(_Alike(skeleton, [(var, words)]))
    return [alike for same in found.values() for alike in same]


def _skeleton(func: tirx.PrimFunc) -> tuple[tirx.PrimFunc, list[int]]:
    """Return ``func`` with zeros instead of the numbers that it stores, and the numbers."""
    words: list[int] = []

    def taken(number: Any) -> Any:
        words.append(word_of(number))
        return tirx.const(0, str(number.ty.dtype))

    return func.with_body(change_numbers(func.body, taken)), words


def _shared(alike: _Alike, func: tirx.PrimFunc, arguments: int) -> tirx.PrimFunc:
    """Return ``func`` with a parameter more behind its ``arguments``: the numbers that differ."""
    varying, columns = alike.varying(), iter(alike.columns())
    numbers = tirx.decl_buffer([tirx.const(len(varying), "int64")], WORD, NUMBERS)

    def read(number: Any) -> Any:
        column = next(columns)
        if column not in varying:
            return number
        return number_at(numbers, varying.index(column), str(number.ty.dtype))

    body = change_numbers(func.body, read)
    body = tvm_ffi.structural_map(body, (s_tir.SBlock, lambda block: _reading(block, numbers)))
    params = [*func.params[:arguments], numbers, *func.params[arguments:]]
    return tirx.PrimFunc(params, body, func.ret_type, attrs=func.attrs)


def _reading(block: Any, numbers: Any) -> Any:
    """Return ``block`` with ``numbers`` among what it reads, if it reads them."""
    found: list[Any] = []
    tvm_ffi.structural_walk(block.body, (ir.TensorLoad, lambda load: found.append(load.source)))
    if block.name_hint == "root" or not any(numbers.same_as(source) for source in found):
        return block
    region = tirx.BufferRegion(numbers, [ir.Range(0, numbers.shape[0])])
    return changed_block(block, reads=[*block.reads, region])
