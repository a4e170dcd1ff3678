from benchmarks import gpu_modelled_page

ROW = {"case": "gates", "rule": "Stream", "default_us": 12.0, "trials": 16, "failed": 1}
MODELLED = {
    "blocks": 4,
    "rows": [{**ROW, "best_us": 10.0}, {**ROW, "case": "fc6", "best_us": None}],
}
SPEED = {
    "environment": {"cpu": "a CPU"},
    "rows": [{"kernel": "fma", "sanitizer": True, "per_second": 1.5e8}],
}


def test_gains_are_called_modelled():
    text = "\n".join(gpu_modelled_page.lines(MODELLED, SPEED))
    assert "**Modelled, not measured.**" in text
    assert "| gates | Stream | 12.0 | 10.0 | 1.20x | 16 | 1 |" in text
    assert "| fc6 | Stream | 12.0 | 12.0 | 1.00x | 16 | 1 |" in text
    assert "| fma | on | 150 million |" in text


def test_without_results_nothing_is_said():
    assert gpu_modelled_page.lines(None, None) == []
