"""Borders go around what is looked up, where the layer in front can write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.machine.record import Machine
from tvm_sparse.ops.bytes.byte_table import BYTE
from tvm_sparse.ops.marks import TABLE
from tvm_sparse.passes.bytes.tabulate_bytes import look_up
from tvm_sparse.passes.graph.padding import pad, padding_of
from tvm_sparse.passes.graph.rewrite import Rewriter, count_uses, op_name, rewrite


@tvm.transform.module_pass(opt_level=0, name="PadFirst")
@dataclass(frozen=True)
class PadFirst:
    """Pad the bytes of a table's input instead of what is found there.

    before: ``pad(byte_table(q, table), value)``
    after:  ``byte_table(pad(q, byte), table)`` with ``table[byte] == value``

    Nothing else may read ``q`` or its entries. What makes ``q`` can write the borders then
    (:class:`~tvm_sparse.passes.finish.write_padding.WritePadding`).
    """

    machine: Machine

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with other tables."""
        uses, bound = count_uses(mod["main"]), relax.analysis.get_var2val(mod["main"])

        def alone(var: Any, name: str) -> Any | None:
            """Return what ``var`` is bound to if that is ``name``, and nothing else reads it."""
            value = bound.get(var)
            return value if uses.get(var) == 1 and op_name(value) == name else None

        def rule(rewriter: Rewriter, call: relax.Call) -> Any | None:
            padding = padding_of(mod, call)
            if padding is None:
                return None
            table = alone(rewriter.original.args[1].fields[0], "call_tir")
            if table is None or TABLE not in mod[table.args[0]].attrs:
                return None
            source, entries = table.args[1].fields
            if uses.get(source) != 1:
                return None
            x, dtype = rewriter.visit_expr(source), str(call.ty.dtype)
            found = array_of(entries).view(dtype)
            bytes_ = np.flatnonzero(found == padding[-1]).astype(BYTE).view(str(x.ty.dtype))
            if not len(bytes_):
                return None
            around = pad(rewriter, x, (*padding[:-1], int(bytes_[0])))
            return look_up(rewriter, around, found.view(BYTE), dtype, self.machine)

        return rewrite(mod, rule)
