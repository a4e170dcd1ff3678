"""What other libraries say, as far as a user knows their words."""

from __future__ import annotations

import re

_INTERNAL = re.compile(
    r"TORCH_|TORCHDYNAMO|torch\._|\baten\b|\bprims\b|higher_order|\b(?:z?uf?|s|lv|gv)\d+\b"
    r"|\b(?:Eq|Ne|Mod|GuardOn\w*)\(|[Gg]uard|[Ss]ymbolic|unhinted|\bSym(?:Int|Float|Bool)\b"
    r"|(?:Fake|Functional)Tensor|tensor subclass|pytree|[Pp]rox(?:y|ies)\b|placeholder|_export"
    r"|\w\.(?:py|cc|cpp|h|so)\b|0x[0-9a-f]{6,}|(?:^|[\s'\"(])/\w+/\w|c10::|Traceback|tlparse"
    r"|\b[RT]\.[A-Z]?\w*\(|\btirx?\b|\b[Rr]elax\b|Check failed|graph\(|%\w+|<class|bound method"
    r"|Unbounded|InternalError|CallSpec|treespec|torch\.Size",
)
"""What no model's author has written or can look up: names inside PyTorch and TVM, their files."""

_LINK = re.compile(r"\s*(?:\(?See |For more information|Please see)?[^.;,]*https?://\S+")


def said(error: BaseException, limit: int = 200) -> str:
    """Return the first sentence of an error's message; empty if only its library understands it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = _LINK.sub("", lines[0]) if lines else ""
    text = text.rstrip(" .;:,")
    return "" if _INTERNAL.search(text) or len(text) > limit else text


def aside(text: str) -> str:
    """Return ``text`` in parentheses behind a space; nothing of nothing."""
    return f" ({text})" if text else ""
