"""docs/gpu.md: its code runs, and its figures are those of the measurements."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks.gpu.ratios import ratio_of
from tests.test_readme import BLOCK, ROOT

PAGE = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "docs" / "performance" / "gpu.md").read_text(encoding="utf-8")
CODE = [
    text for language, text in (m.groups() for m in BLOCK.finditer(PAGE)) if language == "python"
]
NETWORKS = re.findall(r"^\| (\w+.* fp16) \| ([\d.]+x) \| ([\d.]+x)? ?\|$", PAGE, re.MULTILINE)


def test_it_compiles_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(CODE[0], "gpu.md", "exec"), {})
    assert (tmp_path / "model.tvms").exists()


@pytest.mark.gpu
def test_it_runs_on_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in CODE:
        exec(compile(code, "gpu.md", "exec"), {})


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network[0])
def test_networks_are_those_that_were_measured(network):
    path = ROOT / "benchmarks" / "results" / "gpu_models.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    found = {row["case"]: ratio_of(row, rows).value for row in rows}
    name, *shown = network
    for batch, ratio in zip((1, 32), shown, strict=True):
        value = found.get(f"{name}, batch {batch}")
        assert ratio == ("" if value is None else f"{value:.2f}x")


def test_layers_are_those_of_the_page_of_measurements():
    assert len(NETWORKS) == 6
    layers = re.findall(r"^\| (?:banks|blocks), .*$", PAGE, re.MULTILINE)
    assert len(layers) == 2
    assert all(line in MEASURED for line in layers)
