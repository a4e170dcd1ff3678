"""Uses of operators in parts of a few, for ``pytest.mark.grid``: one compilation each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def parts(families: Mapping[str, Mapping[str, T]], size: int) -> dict[str, dict[str, T]]:
    """Return the uses of each family in parts of ``size`` at most, neighbours in different ones.

    The key of a part is the family's name and a number, as in ``"planes 0"``.
    """
    found = {}
    for family, uses in families.items():
        count = -(-len(uses) // size)
        for i in range(count):
            found[f"{family} {i}"] = dict([*uses.items()][i::count])
    return found


def family(part: str) -> str:
    """Return the name of the family that ``part`` is of."""
    return part.rpartition(" ")[0]
