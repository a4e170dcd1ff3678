"""The page of the zoos shows every network and every form of a layer."""

from __future__ import annotations

import json

from benchmarks.pages import zoo_pages

KERNELS = [["linear", "fc", "Contraction", 30.0], ["linear", "fc", "Contraction", 30.0]]
KERNELS += [["softmax", "", None, 40.0]]
NETWORKS = [
    {
        "name": "unet",
        "us": {"ours": 1000.0, "eager": 2500.0},
        "speed": 2.5,
        "compile_s": 12.4,
        "peak_gb": 0.6,
        "kernels": KERNELS,
    },
    {"name": "broken", "error": "InputError: refused"},
]
LAYERS = [
    {"kind": "Conv1d", "us": {"ours": 1, "eager": 2}, "dense": 2.0, "sparse": 1.5},
    {"kind": "Conv1d", "us": {"ours": 1, "eager": 1, "openvino": 1}, "dense": 1.0, "sparse": 2.5},
    {"kind": "sort", "us": {"ours": 2, "eager": 1}, "dense": 0.5},
    {"kind": "odd", "error": "UnsupportedError: no"},
]


def test_networks_with_their_largest_kernels():
    text = zoo_pages.page(NETWORKS, [])
    assert "| unet | 1.0 | 2.5 | 2.50 | 12 | 0.6 |" in text
    assert "60 % `linear` (Contraction, 2 times), 40 % `softmax` (none, 1 times)" in text
    assert "InputError: refused" in text
    assert "## Layers" not in text


def test_forms_of_layers_with_medians():
    text = zoo_pages.page([], LAYERS)
    assert "eager, openvino" in text
    assert "| Conv1d | 2 | 1.50 | 1.00 | 2.00 |" in text
    assert "| sort | 1 | 0.50 | 0.50 |  |" in text
    assert "UnsupportedError: no" in text


def test_times_of_compiling_and_machines():
    machine = {"cpu": "AMD", "python": "3.11", "versions": {"torch": "2"}, "date": "2026-01-02"}
    row = {"name": "unet", "level": "75 %", "processor_s": 20.4, "peak_gb": 1.04}
    text = zoo_pages.page([], [], [{**row, "environment": machine}] * 2)
    assert "| unet | 75 % | 20 | 1.0 |" in text
    assert "* AMD, Python 3.11, torch 2, 2026-01-02: 2 rows." in text


def test_the_page_in_the_repository_is_that_of_the_results(tmp_path):
    zoo_pages.write(tmp_path)
    written = (tmp_path / "zoo.md").read_text(encoding="utf-8")
    from benchmarks.pages.__main__ import PAGES

    assert (PAGES / "zoo.md").read_text(encoding="utf-8") == written, "run benchmarks.pages"
    lines = (zoo_pages.RESULTS / "network_zoo.jsonl").read_text(encoding="utf-8").splitlines()
    names = [json.loads(line)["name"] for line in lines]
    assert all(f"| {name} |" in written for name in names)
