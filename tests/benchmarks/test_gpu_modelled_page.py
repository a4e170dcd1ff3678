import json
from pathlib import Path

import pytest

from benchmarks.gpu import modelled_hopper
from benchmarks.pages import gpu_modelled_page

ROOT = Path(__file__).resolve().parents[2]

ROW = {"case": "gates", "rule": "Stream", "default_us": 12.0, "trials": 16, "failed": 1}
COUNTS = {"shared_passes": 336.2, "bank_conflicts": 4.0, "barriers": 1.9, "waits": 1.0}
SIDE = {"tile": [16, 64, 64], "us": 40.06, "counts": {**COUNTS, "load_bytes": 16384.0}}
STREAM = {"us": 20.0, "counts": {**COUNTS, "load_bytes": 99.0}}
GRID = {
    "chip": "H200",
    "environment": {"date": "2026-11-22"},
    "rows": [{"case": "N=16", "measured_us": 50.0, "before": SIDE, "today": STREAM}],
}
MODELLED = {
    "environment": {"date": "2026-11-22"},
    "blocks": 4,
    "rows": [{**ROW, "best_us": 10.0}, {**ROW, "case": "fc6", "best_us": None}],
}
SPEED = {
    "environment": {"cpu": "a CPU"},
    "rows": [{"kernel": "fma", "sanitizer": True, "per_second": 1.5e8}],
}


def test_gains_are_called_modelled():
    text = "\n".join(gpu_modelled_page.lines(None, None, MODELLED, SPEED))
    assert "**Modelled, not measured.**" in text
    assert "the model of 2026-11-22" in text
    assert "| gates | Stream | 12.0 | 10.0 | 1.20x | 16 | 1 |" in text
    assert "| fc6 | Stream | 12.0 | 12.0 | 1.00x | 16 | 1 |" in text
    assert "| fma | on | 150 million |" in text


def test_without_results_nothing_is_said():
    assert gpu_modelled_page.lines(None, None, None, None) == []


def test_parts_are_named():
    cut = {**SIDE, "tile": [16, 128, 64, 4]}
    streamed = {**STREAM, "warps": [16, 8, 7]}
    row = {**GRID["rows"][0], "before": cut, "today": streamed}
    text = "\n".join(gpu_modelled_page.lines({**GRID, "rows": [row]}, None, None, None))
    assert "| 16x128x64 in 4, stream in 7 |" in text


def test_the_grid_has_counts_and_times_before_and_today():
    text = "\n".join(gpu_modelled_page.lines(GRID, None, None, None))
    assert "**Modelled** times" in text
    cells = "16x64x64, stream | 336, 336 | 4, 4 | 2, 2 | 1, 1 | 16384, 99 |"
    assert f"| N=16 | 50.0 | 40.1 | 20.0 |  | {cells}" in text
    measured = {**GRID, "rows": [{**GRID["rows"][0], "again_us": 21.0}]}
    text = "\n".join(gpu_modelled_page.lines(measured, None, None, None))
    assert f"| N=16 | 50.0 | 40.1 | 20.0 | 21.0 | {cells}" in text


def test_cells_of_hopper_stand_beside_what_was_foretold_and_measured():
    about = {"pattern": "2:4", "zeros": 0.5, "kernel": "wgmma", "foretold_us": 31.0}
    first = {**about, "rows": 16, "us": 38.0, "measured_us": 40.0}
    second = {**about, "rows": 64, "us": 39.0, "measured_us": 31.0}
    third = {**about, "rows": 256, "us": 39.0, "measured_us": None}
    text = "\n".join(gpu_modelled_page.lines(None, {"rows": [first, second, third]}, None, None))
    assert "are 1 of 3; the others are bold" in text
    assert "| 2:4 | 50% | 38.0 / 31.0 (40.0) wgmma | **39.0** / 31.0 (31.0) wgmma |" in text
    assert "Of these 2 cells the model is within 25 % of\n1. What" in text
    assert "too little: 1 measured times" in text


def test_the_model_is_near_what_was_measured():
    content = json.loads((ROOT / "benchmarks/results/gpu_modelled_hopper.json").read_text())
    taken = modelled_hopper.measured()
    known = []
    for row in content["rows"]:
        key = (row["pattern"], row["zeros"], row["rows"], row["kernel"])
        assert row["measured_us"] == taken.get(key)
        known += [row["us"] / row["measured_us"]] if key in taken else []
    limit = gpu_modelled_page.NEAR
    assert len(known) > 40
    assert sum(1 / limit <= off <= limit for off in known) > 0.95 * len(known)


def test_the_compiler_takes_what_the_committed_cells_say():
    content = json.loads((ROOT / "benchmarks/results/gpu_modelled_hopper.json").read_text())
    wanted = [row for row in content["rows"] if row["pattern"] == modelled_hopper.QUADS]
    with pytest.MonkeyPatch.context() as patch:
        key = (modelled_hopper.QUADS, 0.5)
        patch.setattr(modelled_hopper, "FORETOLD", {key: modelled_hopper.FORETOLD[key]})
        assert list(modelled_hopper.modelled()) == wanted
    near = [row["us"] <= gpu_modelled_page.NEAR * row["foretold_us"] for row in wanted]
    assert len(near) == 7 and all(near)
