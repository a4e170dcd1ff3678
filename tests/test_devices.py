"""Devices differ by records (``schedules/device.py``, ``passes/device.py``), not by questions."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUESTION = re.compile(r"kind\.name (==|!=|in)|\bon_gpu\b")
LEFT = 36
"""How many lines still ask. Lower it with each one that goes; nothing may be added."""


def test_no_line_more_asks_which_device_it_is():
    files = [
        p for room in ("tvm_sparse", "frontends", "schedules") for p in (ROOT / room).rglob("*.py")
    ]
    asking = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted(files)
        for line in path.read_text(encoding="utf-8").splitlines()
        if QUESTION.search(line)
    ]
    assert len(asking) <= LEFT, "\n".join(asking)
    assert len(asking) == LEFT, f"{len(asking)} are left: lower LEFT"
