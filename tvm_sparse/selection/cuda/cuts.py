"""The parts that an option's reduction may be cut into instead: what tuning compares."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import TypeAlias

from tvm_sparse.ops.cuda.mends import in_use, using
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.tile_choice import PARTS

Find: TypeAlias = Callable[[], Iterable[Option | str]]


def parts_of(option: Option) -> int:
    """Return the parts that the reduction of ``option`` is cut into; one where it is whole."""
    if isinstance(option.tile, ThreadBlockTile):
        return option.tile.parts
    return option.warps.parts if option.warps else 1


def in_other_parts(chosen: Option, find: Find) -> list[Option]:
    """Return ``chosen`` in each other number of parts that its kernel allows, the fastest first.

    ``find`` looks for options anew, among them those of the name and the kernel of ``chosen``: with
    other parts other tiles are the best.
    """
    found: dict[int, Option] = {}
    for parts in (1, *PARTS):
        with using(replace(in_use(), parts=parts)):
            for option in find():
                if not isinstance(option, str) and _other(option, chosen, found):
                    found[parts_of(option)] = _built(option)
    return sorted(found.values(), key=lambda option: option.seconds)


def _other(option: Option, chosen: Option, found: Container[int]) -> bool:
    """Whether ``option`` is ``chosen`` in parts that are in neither ``chosen`` nor ``found``."""
    alike = (option.name, option.kernel) == (chosen.name, chosen.kernel)
    return alike and parts_of(option) != parts_of(chosen) and parts_of(option) not in found


def _built(option: Option) -> Option:
    """Return ``option`` with the operator that it builds now, under what is in use now."""
    func = option.build()
    return replace(option, build=lambda: func)
