"""Small checks for JSON that nobody has to be trusted to have written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .errors import RuntimeArtifactError, shown

DAMAGED = "the artifact is damaged or was edited: export it again"

Check = Callable[[Any, str], Any]
"""Takes a JSON value and where it stands; returns the checked value or raises."""


def wrong(where: str, found: object, expected: str) -> RuntimeArtifactError:
    """Return the error for the value ``found`` at ``where``."""
    return RuntimeArtifactError(where, f"found {shown(found)}", expected, DAMAGED)


def parse_json(data: bytes, where: str) -> dict[str, Any]:
    """Parse strict JSON with an object on top: no NaN, no duplicate keys, no deep nesting."""

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("a key occurs twice")
        return result

    def no_constants(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=no_duplicates, parse_constant=no_constants
        )
    except (ValueError, RecursionError) as error:
        raise RuntimeArtifactError(
            where, f"not a JSON document ({shown(str(error))})", "UTF-8 JSON", DAMAGED
        ) from error
    if not isinstance(value, dict):
        raise wrong(where, value, "a JSON object")
    return value


def record(checks: Mapping[str, Check]) -> Check:
    """Return a check for an object with exactly the given keys."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong(where, value, "an object")
        missing, extra = checks.keys() - value.keys(), value.keys() - checks.keys()
        if missing:
            raise wrong(where, sorted(value), f"also the key {shown(min(missing))}")
        if extra:
            raise wrong(where, min(extra), f"only the keys {', '.join(sorted(checks))}")
        return {key: test(value[key], f"{where}: {key}") for key, test in checks.items()}

    return check


def sequence(item: Check) -> Check:
    """Return a check for an array whose items all pass ``item``; gives a tuple."""

    def check(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise wrong(where, value, "an array")
        return tuple(item(v, f"{where}[{i}]") for i, v in enumerate(value))

    return check


def mapping(item: Check) -> Check:
    """Return a check for an object with free keys whose values all pass ``item``."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong(where, value, "an object")
        return {key: item(v, f"{where}[{shown(key)}]") for key, v in value.items()}

    return check


def optional(item: Check) -> Check:
    """Return a check that lets null through as None."""
    return lambda value, where: None if value is None else item(value, where)


def text(value: Any, where: str) -> str:
    """Check for a string of printable characters, not empty."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise wrong(where, value, "printable text")
    return value


def integer(low: int, high: int = 2**63 - 1) -> Check:
    """Return a check for an integer between ``low`` and ``high``; a boolean is none."""

    def check(value: Any, where: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise wrong(where, value, f"an integer from {low} to {high}")
        return value

    return check


def anything(value: Any, where: str) -> Any:
    """Let every JSON value through."""
    return value
