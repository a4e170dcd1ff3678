"""docs/operators.md says what the JSON files say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

TOOL = Path(__file__).resolve().parents[2] / "tools" / "operators_page.py"


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("operators_page", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_operators_are_listed_by_how_many_samples_are_right():
    rows = {
        "abs": {"right": 2},
        "add": {"refused": 1, "right": 3, "reasons": ["is complex"]},
        "eig": {"refused": 2, "reasons": ["a | b"]},
        "svd": {"refused": 2, "reasons": ["a | b"]},
    }
    text = _tool().page([{"suite": "Samples", "version": "torch 2", "operators": rows}])
    assert "torch 2: 5 of 10 samples are right (50%), 5 are refused." in text
    assert "### Supported (1 operators)\n\n`abs`\n" in text
    assert "| `add` | 3 | 1 | is complex |" in text
    assert "| a \\| b | `eig`, `svd` |" in text
