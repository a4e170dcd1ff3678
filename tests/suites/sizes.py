"""What comes of a case with one open extent: compiled once, run at several sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tests.suites.opened_samples import Opened
from tests.suites.outcomes import INTERNAL, REFUSED, RIGHT, WRONG, Arrays, first_line
from tvm_sparse_runtime.errors import SparseRuntimeError

FOREIGN = re.compile(
    r"TORCH_|torch\._|\baten\b|\b(?:z?uf?|s|lv|gv)\d+\b|\b(?:Eq|Ne|Mod|FloorDiv)\(|int_oo|Infinity"
    r"|L\[|Traceback|\b[RTI]\.[A-Z]?\w*\(|\btirx?\b|Check failed|InternalError|\boo\b|[Gg]uard"
    r"|SymInt|torch\.Size|expanded size|specializ|0x[0-9a-f]{6,}|CeilToInt|Piecewise"
)
"""Words of PyTorch, SymPy and TVM, which no error of ours has."""


def outcome_at_sizes(
    case: Opened,
    expected: Sequence[Arrays],
    *,
    compiled: Callable[[], Any],
    closed: Callable[[], Any],
    run: Callable[[Any, int], Arrays],
    differs: Callable[[Arrays, Arrays], str],
) -> tuple[str, str] | None:
    """Return the outcome and its reason, None if the case is refused with closed axes as well.

    ``expected`` has the outputs at the example's size, and at the others.
    """
    try:
        library = compiled()
    except SparseRuntimeError as error:
        return None if _is_refused(closed) else refused(error)
    except Exception as error:
        return INTERNAL, f"compile: {type(error).__name__}: {first_line(error)}"
    worst = RIGHT, ""
    for size, wanted in zip((case.size, *case.sizes), expected, strict=True):
        try:
            found = run(library, size)
        except SparseRuntimeError as error:
            worst = refused(error, f"at {size} of {case.size}: ")
        except Exception as error:
            return INTERNAL, f"call at {size}: {type(error).__name__}: {first_line(error)}"
        else:
            reason = differs(found, wanted)
            if reason:
                return WRONG, f"at {size} of {case.size}: {reason}"
        if worst[0] == INTERNAL:
            break
    return worst


def _is_refused(closed: Callable[[], Any]) -> bool:
    try:
        closed()
    except Exception:
        return True
    return False


def refused(error: Exception, where: str = "") -> tuple[str, str]:
    """Return that a case is refused, or a bug if the error has words that are not ours."""
    text = where + " ".join(str(error).split())
    foreign = FOREIGN.search(text)
    return (INTERNAL, f"says {foreign[0]!r}: {text}") if foreign else (REFUSED, text)
