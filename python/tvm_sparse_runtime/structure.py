"""How a program's tensors hang together: what it is called with, and what it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import fields
from .errors import TensorError, shown

Tree = Any
"""A nesting in plain JSON: a number is the tensor of that place, null is None, ``{"tuple": […]}``,
``{"list": […]}`` and ``{"dict": {…}}`` hold trees, ``{"value": v}`` is a constant."""


@dataclass(frozen=True)
class Structure:
    """The arguments and the result of a program.

    Parameters
    ----------
    arguments
        Name and tree of each argument in call order. Their numbers are places among the inputs.
    output
        Tree of the result. Its numbers are places among the outputs.
    """

    arguments: tuple[tuple[str, Tree], ...]
    output: Tree

    def bind(self, values: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return the tensors of a call in the order of the inputs.

        Tensors alone, one for each input, may be given without their nesting.

        Raises
        ------
        TensorError
            An argument is missing, unknown or nested in another way, or a constant differs.
        """
        count = sum(_is_place(leaf) for _, tree in self.arguments for leaf in leaves(tree))
        if not named and len(values) == count and all(hasattr(v, "__dlpack__") for v in values):
            return list(values)
        given = self._by_name(values, named)
        found: dict[int, Any] = {}
        for name, tree in self.arguments:
            if name in given:
                _collect(tree, given[name], f"input {name}", found)
            elif any(_is_place(leaf) for leaf in leaves(tree)):
                raise TensorError(f"input {name}", "is missing", self._listed())
        return [found[place] for place in range(count)]

    def restore(self, tensors: Sequence[Any]) -> Any:
        """Return ``tensors`` in the nesting of the result, as tuples, lists and dictionaries."""
        if self.output == 0:  # of most programs
            return tensors[0]
        return _built(self.output, tensors)

    def _by_name(self, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        names = [name for name, _ in self.arguments]
        if len(values) > len(names):
            raise TensorError("inputs", f"{len(values)} arguments", self._listed())
        given = dict(zip(names, values, strict=False))
        for name in named:
            if name not in names:
                raise TensorError("inputs", f"there is no '{name}'", self._listed())
            if name in given:
                raise TensorError(f"input {name}", "is given twice", "each argument once")
        return {**given, **named}

    def _listed(self) -> str:
        return ", ".join(name for name, _ in self.arguments) or "no arguments"


def paths(tree: Tree) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the keys to each leaf of ``tree`` and the leaf: a place, None or ``{"value": …}``."""
    inner = _items(tree)
    if inner is None:
        yield (), tree
        return
    for key, item in inner.items() if isinstance(inner, dict) else enumerate(inner):
        yield from (((str(key), *path), leaf) for path, leaf in paths(item))


def leaves(tree: Tree) -> Iterator[Any]:
    """Yield the leaves of ``tree`` in order."""
    return (leaf for _, leaf in paths(tree))


def value(leaf: Any, tensors: Sequence[Any]) -> Any:
    """Return the tensor or the constant that a leaf stands for."""
    if _is_place(leaf):
        return tensors[leaf]
    return None if leaf is None else leaf["value"]


def _is_place(leaf: Any) -> bool:
    return isinstance(leaf, int)


def _items(tree: Tree) -> Any:
    """Return the trees inside of ``tree``: a list, a dictionary, or None for a leaf."""
    if not isinstance(tree, dict) or "value" in tree:
        return None
    (inner,) = tree.values()
    return inner


def _built(tree: Tree, tensors: Sequence[Any]) -> Any:
    inner = None if _is_place(tree) else _items(tree)
    if inner is None:
        return value(tree, tensors)
    if isinstance(inner, dict):
        return {key: _built(item, tensors) for key, item in inner.items()}
    made = [_built(item, tensors) for item in inner]
    return made if "list" in tree else tuple(made)


def _collect(tree: Tree, given: Any, where: str, found: dict[int, Any]) -> None:
    """Put the tensors of ``given``, which must be nested like ``tree``, into ``found``."""
    inner = _items(tree)
    if _is_place(tree):
        found[tree] = given
    elif inner is None:
        expected = value(tree, ())
        if type(given) is not type(expected) or given != expected:
            raise TensorError(where, shown(given), f"{expected!r}, as it was compiled with")
    elif isinstance(inner, dict):
        if not isinstance(given, Mapping) or given.keys() != inner.keys():
            raise TensorError(where, _form(given), f"a mapping of {', '.join(inner)}")
        for key, item in inner.items():
            _collect(item, given[key], f"{where}[{key!r}]", found)
    else:
        if not isinstance(given, (list, tuple)) or len(given) != len(inner):
            raise TensorError(where, _form(given), f"a sequence of {len(inner)}")
        for place, item in enumerate(inner):
            _collect(item, given[place], f"{where}[{place}]", found)


def _form(given: Any) -> str:
    if isinstance(given, Mapping):
        return f"a mapping of {', '.join(map(str, given))}"
    length = f" of {len(given)}" if isinstance(given, (list, tuple)) else ""
    return f"a {type(given).__name__}{length}"


def parsed(given: Any, where: str) -> Structure:
    """Return a structure from JSON that nobody has to be trusted to have written."""
    structure = Structure(**_STRUCTURE(given, where))
    names = [name for name, _ in structure.arguments]
    if len(set(names)) != len(names):
        raise fields.wrong(where, names, "each argument once")
    return structure


def _argument(given: Any, where: str) -> tuple[str, Tree]:
    """Check for a name and a tree."""
    if not isinstance(given, list) or len(given) != 2:
        raise fields.wrong(where, given, "a name and a tree")
    return fields.text(given[0], where), _tree(given[1], where)


def _tree(given: Any, where: str) -> Tree:
    """Check for a tree."""
    if given is None or type(given) is int:
        return fields.optional(fields.integer(0))(given, where)
    if not isinstance(given, dict) or len(given) != 1:
        raise fields.wrong(where, given, "a place, null or an object with one key")
    ((key, inner),) = given.items()
    if key in ("tuple", "list"):
        return {key: [*fields.sequence(_tree)(inner, where)]}
    if key == "dict":
        return {key: fields.mapping(_tree)(inner, where)}
    if key != "value" or not isinstance(inner, (bool, int, float, str)):
        raise fields.wrong(where, given, "a tuple, list, dict or value")
    return given


_STRUCTURE = fields.record({"arguments": fields.sequence(_argument), "output": _tree})
