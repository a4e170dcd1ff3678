import json

import pytest

from benchmarks.harness import common
from benchmarks.papers import output


def test_table_aligns_numbers_to_the_right():
    assert output.table(["name", "share"], [["a", 0.5], ["b", "7 %"]]) == (
        "| name | share |\n|---|---:|\n| a | 0.5 |\n| b | 7 % |"
    )


def test_write_makes_three_files(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(output, "RESULTS", tmp_path / "results")
    output.write("x", {"a": 1}, "# X", lambda figure: figure.subplots().plot([1, 2]))
    folder = tmp_path / "results" / "papers"
    content = json.loads((folder / "x.json").read_text())
    assert content["a"] == 1
    assert "cpu" in content["environment"]
    assert (
        (folder / "x.md")
        .read_text()
        .startswith("# X\n\nMade by `python -m benchmarks.papers.x` from [x.json](x.json)")
    )
    assert (folder / "x.png").read_bytes().startswith(b"\x89PNG")
