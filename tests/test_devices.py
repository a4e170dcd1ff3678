"""Devices differ by records (``schedules/device.py``, ``passes/device.py``), not by questions."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUESTION = re.compile(r"target\.kind\.name (==|!=)|\bon_gpu\b")
TARGETS = ROOT / "tvm_sparse" / "base" / "targets.py"


def test_no_line_asks_which_device_it_is():
    files = [
        p for room in ("tvm_sparse", "frontends", "schedules") for p in (ROOT / room).rglob("*.py")
    ]
    asking = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted({*files} - {TARGETS})
        for line in path.read_text(encoding="utf-8").splitlines()
        if QUESTION.search(line)
    ]
    assert not asking, "\n".join(asking)
