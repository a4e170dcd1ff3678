"""Pruning recipes in YAML: method, parameters, schedule and layers, all checked first."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_type_hints

import yaml
from pydantic import ConfigDict, ValidationError, create_model
from torch import nn

from tvm_sparse.base.table import Table
from tvm_sparse.errors import InputError
from tvm_sparse.pruning.deprune.method import DEPrune
from tvm_sparse.pruning.functions import block_method, n_m_method
from tvm_sparse.pruning.methods.balanced import BalancedPruning
from tvm_sparse.pruning.methods.base import Method
from tvm_sparse.pruning.methods.dense import KeepAll
from tvm_sparse.pruning.methods.filters import FilterPruning
from tvm_sparse.pruning.methods.joint import JointPruning
from tvm_sparse.pruning.methods.layers import LayerPruning
from tvm_sparse.pruning.methods.projection import UnstructuredPruning
from tvm_sparse.pruning.pruner import Pruner
from tvm_sparse.pruning.schedule import Exponential, Levels, OneShot, Schedule


def layers_method(layers: dict[str, dict[str, Any]]) -> LayerPruning:
    """Return a method for each layer from the keys that a recipe has for each."""
    if not layers:
        raise InputError("layers", "none", "a method for each layer, by the parameter's name")
    found = {name: _method(keys, f"layers, {name}")[0] for name, keys in layers.items()}
    return LayerPruning(found)


METHODS: Table[Callable[..., Method]] = Table(
    "pruning method",
    {
        "balanced": BalancedPruning,
        "n_m": n_m_method,
        "block": block_method,
        "joint": JointPruning,
        "unstructured": UnstructuredPruning,
        "filters": FilterPruning,
        "deprune": DEPrune,
        "dense": KeepAll,
        "layers": layers_method,
    },
)
"""By the name in a recipe; a method's parameters are the recipe's keys."""

SCHEDULES: Table[Callable[..., Schedule]] = Table(
    "pruning schedule",
    {
        "one_shot": OneShot,
        "levels": Levels,
        "exponential": Exponential,
    },
)


_NO_VALUE = (ValueError, TypeError, AttributeError, OverflowError)
"""What YAML's reader raises for a date or a number that is none."""


NumericsName = Literal["float32", "bfloat16", "int8", "int8-dynamic"]
"""What layers multiply in the end: bytes come from :func:`tvm_sparse.quantize`, whose scales of
activations are static or dynamic, and bfloat16 is an option of :func:`tvm_sparse.compile`."""

_EXTRA = {
    "include": (tuple[str, ...], ("*",)),
    "ignore": (tuple[str, ...], ()),
    "numerics": (NumericsName, "float32"),
    "plan": (dict[str, Any], {}),
}
"""Keys of any recipe with their types and defaults. What a ``plan`` says prunes nothing."""


@dataclass(frozen=True)
class Recipe:
    """A checked recipe: what :class:`.Pruner` needs beside the model.

    ``numerics`` is what the pruned network is meant to be compiled in.
    """

    method: Method
    schedule: Schedule
    include: tuple[str, ...] = ("*",)
    ignore: tuple[str, ...] = ()
    numerics: NumericsName = "float32"

    def check_one_step(self, where: str) -> None:
        """Refuse a recipe whose schedule has several steps; ``where`` is what it is called."""
        if not isinstance(self.schedule, OneShot):
            raise InputError(
                f"{where}, schedule",
                "prunes in several steps, with training between them",
                "one_shot",
                "use the recipe in a training loop: Recipe.pruner",
            )

    def pruner(self, model: nn.Module) -> Pruner:
        """Return a pruner for ``model``; nothing is pruned before its first ``step()``."""
        return Pruner(
            model, self.method, schedule=self.schedule, include=self.include, ignore=self.ignore
        )


def load_recipe(path: str | Path) -> Recipe:
    """Read a recipe file.

    Examples
    --------
    A recipe for balanced sparsity in two steps; the keys beside ``method`` are the parameters of
    the method's class::

        method: balanced
        sparsity: 0.9
        bank: 16
        rounding: reach
        ignore: [features.0]
        schedule: {kind: levels, sparsities: [0.75, 0.9]}

    Raises
    ------
    InputError
        If the file is missing or no YAML, or a key or value is wrong; the message names the
        nearest known key.
    """
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise InputError(str(path), "no plain file", "a recipe in YAML")
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(str(path), f"cannot be read ({reason})", "a recipe in YAML") from error
    try:
        content = yaml.load(text, _Loader)
    except RecursionError as error:
        raise InputError(str(path), "is nested too deeply", "a mapping with 'method'") from error
    except (yaml.YAMLError, *_NO_VALUE) as error:
        raise InputError(str(path), f"is not YAML ({error})") from error
    return parse_recipe(content, str(path))


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases, through which a short file can spell a huge one."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse an alias; read anything else."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "an alias, which no recipe needs", mark)
        return super().compose_node(parent, index)


def parse_recipe(content: Any, where: str = "recipe") -> Recipe:
    """Check ``content``, a mapping as YAML gives it; see :func:`load_recipe`."""
    if not isinstance(content, Mapping):
        raise InputError(where, f"holds a {type(content).__name__}", "a mapping with 'method'")
    keys = dict(content)
    schedule = keys.pop("schedule", {"kind": "one_shot"})
    method, others = _method(keys, where, ("schedule",), _EXTRA)
    del others["plan"]
    if not isinstance(schedule, Mapping):
        raise InputError(f"{where}, schedule", repr(schedule), "a mapping with 'kind'")
    options = dict(schedule)
    kind = _choice(options.pop("kind", None), SCHEDULES.parts(), f"{where}, schedule kind")
    options = _checked(options, kind, f"{where}, schedule", ("kind",), {})
    return Recipe(method, kind(**options), **others)


def _method(
    content: Mapping[str, Any],
    where: str,
    others: tuple[str, ...] = (),
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Method, dict[str, Any]]:
    """Return the method that ``content`` spells, and the values of its ``extra`` keys."""
    keys = dict(content)
    factory = _choice(keys.pop("method", None), METHODS.parts(), f"{where}, method")
    values = _checked(keys, factory, where, ("method", *others), extra)
    found = {key: values.pop(key) for key in extra}
    return factory(**values), found


def _choice(name: Any, known: Mapping[str, Callable[..., Any]], where: str) -> Callable[..., Any]:
    if isinstance(name, str) and name in known:
        return known[name]
    raise InputError(where, _unknown(str(name), list(known)), ", ".join(known))


def _checked(
    values: Mapping[str, Any],
    factory: Callable[..., Any],
    where: str,
    others: tuple[str, ...],
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Return ``values`` converted to the parameter types of ``factory``; refuse unknown keys."""
    plain_class = inspect.isclass(factory) and not is_dataclass(factory)
    target = factory.__init__ if plain_class else factory
    hints = get_type_hints(target)
    fields: dict[str, Any] = {
        name: (hints[name], ... if p.default is p.empty else p.default)
        for name, p in inspect.signature(factory).parameters.items()
    }
    fields.update(extra)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    try:
        checked = create_model("Recipe", __config__=config, **fields).model_validate(dict(values))
    except ValidationError as error:
        errors = error.errors()
        first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            found = _unknown(key, [*fields, *others])
            raise InputError(where, found, ", ".join([*others, *fields])) from None
        if first["type"] == "missing":
            raise InputError(where, f"no '{key}'", "a value for it") from None
        raise InputError(f"{where}, {key}", f"{first['input']!r}", first["msg"]) from None
    return {name: getattr(checked, name) for name in checked.model_fields_set | set(extra)}


def _unknown(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
    return f"unknown '{key}'" + (f", did you mean '{near[0]}'" if near else "")
