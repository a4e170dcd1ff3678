"""Result files: one row a line, rounded, and the same content when they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.harness import rows

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
LONGEST = 30_000
"""Characters of a line: more than that are samples, not digests."""

CONTENT = {
    "size": 3,
    "rows": [
        {"us": 1.23456789, "calls": 1234567, "environment": {"cpu": "a"}},
        {"us": float("inf"), "environment": {"cpu": "b"}},
        {"us": None, "environment": {"cpu": "a"}},
    ],
    "networks": {"net": {"layers": [{"us": [0.1234567]}, {}], "errors": {"x": 1e-12}}},
}


def test_one_row_a_line_and_each_environment_once():
    lines = rows.dumps(CONTENT).splitlines()
    assert '{"us": 1.23457, "calls": 1234567, "environment": 0},' in lines
    assert '{"us": null, "environment": 0}' in lines
    assert lines.count('{"cpu": "a"},') == 1
    assert '{"us": [0.123457]},' in lines


def test_reading_gives_the_rounded_content_back():
    found = rows.loads(rows.dumps(CONTENT))
    expected = json.loads(json.dumps(CONTENT))
    expected["rows"][0]["us"] = 1.23457
    expected["networks"]["net"]["layers"][0]["us"] = [0.123457]
    assert found == expected
    assert rows.dumps(found) == rows.dumps(CONTENT)


def test_a_file_of_another_form_is_rewritten(tmp_path):
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    source.write_text(json.dumps({"levels": [{"x": 1 / 3}]}, indent=2))
    rows.main(str(source), str(target))
    assert target.read_text() == '{\n"levels": [\n{"x": 0.333333}\n]\n}\n'


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.json")), ids=lambda p: p.stem)
def test_every_result_in_git_is_in_this_form(path):
    text = path.read_text(encoding="utf-8")
    assert rows.dumps(rows.loads(text)) == text
    assert max(map(len, text.splitlines())) < LONGEST
