"""Every network of a module has a line; speeds are beside the fastest other in the same numbers."""

from __future__ import annotations

from benchmarks.pages import recovery_page

FACTS = {"zeros": 0.0, "seconds": 0.0, "score": 0.9, "other score": 0.8}
FACTS |= {"cosine": 1.0, "other cosine": 1.0}
PRUNED = FACTS | {"zeros": 0.75, "seconds": 61.4, "steps": 40, "score": 0.875}
ROW = {
    **{"module": "net", "measure": "share", "other": "the same elsewhere"},
    "networks": {
        "dense, float32": FACTS,
        "75 % zeros, float32": PRUNED,
        "75 % zeros, int8": PRUNED,
    },
    "ms": {
        **{"onnxruntime, float32": 4.0, "openvino, float32": 3.0, "openvino, int8": 1.0},
        **{"ours, 75 % zeros, float32": 1.5, "ours, 75 % zeros, int8": 0.5},
    },
    **{"cpu": "a CPU", "shared": True},
}


def test_rows_are_lines():
    text = recovery_page.page({"rows": [ROW]})
    assert "Score: share [the same elsewhere]." in text
    assert "Fastest other runtime in float32: openvino, 3 ms." in text
    assert "| dense | 0.0% | 0 | 0.900 [0.800] |  | 1.000 [1.000] | 0 |  |  |" in text
    wanted = "| 75 % zeros | 75.0% | 40 | 0.875 [0.800] | 0.875 [0.800] | 1.000 [1.000] | 61 "
    assert wanted + "| 2.00x | 2.00x |" in text


def test_a_module_without_times_has_no_ratios():
    text = recovery_page.page({"rows": [{**ROW, "ms": {}}]})
    assert "Fastest" not in text and "x |" not in text


def test_nothing_is_written_without_results(tmp_path, monkeypatch):
    monkeypatch.setattr(recovery_page, "load", lambda name: {})
    recovery_page.write(tmp_path)
    assert not list(tmp_path.iterdir())
