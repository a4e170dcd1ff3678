"""Two schedules of one function: which of them runs, open extents decide at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from tvm_sparse.ops.emit import changed_block
from tvm_sparse.schedules.single_bindings import single_bindings

MANY, FEW = "many", "few"
"""Names of the blocks that hold the two."""

Made = Callable[[tirx.PrimFunc], s_tir.Schedule]


def versions(
    func: tirx.PrimFunc, least: Sequence[tuple[Any, int]], whole: Made, any_: Made
) -> s_tir.Schedule:
    """Return the schedule ``whole`` makes of ``func`` and, for small extents, that of ``any_``.

    before: ``for t in T.serial(-(-n // 8)): tile(t)``
    after:  ``if n >= 8: for t in T.serial(-(-n // 8)): tile(t)``, ``else: for t in T.serial(n): …``

    ``least`` are the open extents of tiles, and what each has to be at least for whole tiles.
    """
    again = s_tir.renew_defs(func)
    first, other = (
        single_bindings(whole(func).mod["main"]),
        single_bindings(any_(again).mod["main"]),
    )
    same = _same(again.params, func.params)
    body = tvm_ffi.structural_map(other.body, (tirx.Var, lambda var: same.get(var, var)))
    enough = tirx.all(*(extent >= tirx.const(n, "int64") for extent, n in least))
    branches = tirx.IfThenElse(enough, _named(first.body, MANY), _named(body, FEW))
    root = s_tir.SBlock([], [], [], "root", branches)
    realize = s_tir.SBlockRealize([], tirx.const(True, "bool"), root)
    made = tirx.PrimFunc(func.params, realize, func.ret_type, attrs=func.attrs)
    return s_tir.Schedule(made.with_attr("global_symbol", "main"))


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
