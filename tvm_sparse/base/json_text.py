"""JSON from files that anybody may have written or damaged."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON document.

    Raises
    ------
    ValueError
        It is none: whatever is wrong with it, how deeply it is nested included.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
