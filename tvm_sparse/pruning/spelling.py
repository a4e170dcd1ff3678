"""How a recipe spells a method: what :mod:`tvm_sparse.pruning.recipe` reads."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.block import Block
from tvm_sparse.pruning.functions import block_method
from tvm_sparse.pruning.methods.base import Method
from tvm_sparse.pruning.methods.layers import LayerPruning
from tvm_sparse.pruning.methods.projection import PatternPruning
from tvm_sparse.pruning.recipe import METHODS


def spelled(method: Method) -> dict[str, Any]:
    """Return the keys of a recipe whose method is ``method``, without those of its defaults.

    Raises
    ------
    InputError
        Recipes do not know the method.
    """
    if isinstance(method, LayerPruning):
        return {"method": "layers", "layers": {n: spelled(m) for n, m in method.layers.items()}}
    values = {field.name: getattr(method, field.name) for field in fields(method)}
    if isinstance(method, PatternPruning) and isinstance(method.pattern, Block):
        del values["pattern"]
        sides = {"rows": method.pattern.rows, "cols": method.pattern.cols}
        return {"method": "block", **_changed(block_method, {**values, **sides})}
    for name, factory in METHODS.parts().items():
        if factory is type(method):
            return {"method": name, **_changed(factory, values)}
    raise InputError(
        "recipe",
        f"knows no name of '{method.describe()}'",
        ", ".join(METHODS.parts()),
        "add it to tvm_sparse.pruning.recipe.METHODS",
    )


def _changed(factory: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``values`` that are not the defaults of ``factory``, as JSON holds them."""
    defaults = {name: p.default for name, p in inspect.signature(factory).parameters.items()}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value != defaults[name]
    }
