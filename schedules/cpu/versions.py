"""Several schedules of one function: which of them runs, open extents decide at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from tvm_sparse.ops.emit import changed_block
from tvm_sparse.schedules.single_bindings import single_bindings

Made = Callable[[tirx.PrimFunc], s_tir.Schedule]
Case = tuple[Sequence[tuple[Any, int]], Made]
"""Open extents of tiles, what each has to be at least for whole tiles, and the schedule then."""


def versions(func: tirx.PrimFunc, cases: Sequence[Case], few: Made) -> s_tir.Schedule:
    """Return the schedule of the first case that holds and, where none does, that of ``few``.

    before: ``for t in T.serial(-(-n // 8)): tile(t)``
    after:  ``if n >= 8: for t in T.serial(-(-n // 8)): tile(t)``, ``else: for t in T.serial(n): …``
    """
    body = _body(func, few, "few")
    for number, (least, made) in reversed([*enumerate(cases)]):
        enough = tirx.all(*(extent >= tirx.const(n, "int64") for extent, n in least))
        body = tirx.IfThenElse(enough, _body(func, made, f"case{number}"), body)
    root = s_tir.SBlock([], [], [], "root", body)
    realize = s_tir.SBlockRealize([], tirx.const(True, "bool"), root)
    whole = tirx.PrimFunc(func.params, realize, func.ret_type, attrs=func.attrs)
    return s_tir.Schedule(whole.with_attr("global_symbol", "main"))


def _body(func: tirx.PrimFunc, made: Made, name: str) -> Any:
    """Return the root block of a schedule of ``func``, on the parameters of ``func``."""
    own = single_bindings(made(s_tir.renew_defs(func)).mod["main"])
    same = _same(own.params, func.params)
    body = tvm_ffi.structural_map(own.body, (tirx.Var, lambda var: same.get(var, var)))
    return _named(body, name)


def _same(params: Sequence[Any], others: Sequence[Any]) -> dict[Any, Any]:
    """Return what parameters, and the symbols of their shapes, are among ``others``."""
    found: dict[Any, Any] = {}
    for param, other in zip(params, others, strict=True):
        found[param] = other
        if hasattr(param, "shape"):
            pairs = zip(param.shape, other.shape, strict=True)
            found.update({a: b for a, b in pairs if isinstance(a, tirx.Var)})
    return found


def _named(realize: Any, name: str) -> Any:
    """Return a function's root block under another name."""
    block = changed_block(realize.block, name_hint=name)
    return s_tir.SBlockRealize(realize.iter_values, realize.predicate, block)
