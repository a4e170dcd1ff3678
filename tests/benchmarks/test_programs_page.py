"""Every program has a line, and the first sentence names the fastest one."""

from __future__ import annotations

from benchmarks.pages import programs_page

READER = {
    "environment": {"shared machine": True},
    "pages": [[640, 480], [640, 480]],
    "rows": [
        {"program": "onnxruntime, published", "letters": 0.98, "ms": [100.0, 200.0]},
        {"program": "ours, published", "letters": 0.98, "ms": [80.0, 160.0]},
        {"program": "ours, int8", "letters": 0.96, "ms": [50.0, 50.0]},
    ],
}
ENCODER = {
    "environment": {},
    "rows": [{"program": "ours", "cosine": 1.0, "sentences_per_s": {"1 x 16": 10.4}}],
}


def test_rows_are_lines():
    text = programs_page.page(READER, ENCODER)
    assert "| ours, int8 | 96.0% | 50 | 2.83x |" in text
    assert "| ours | 1.000 | 10 |" in text
    assert text.count("The machine was shared.") == 1
    assert "1.25 times as fast" in text
    assert "2.83 times with int8: 96.0% of the letters are right, 98.0% before" in text


def test_nothing_is_written_without_results(tmp_path, monkeypatch):
    monkeypatch.setattr(programs_page, "load", lambda name: {})
    programs_page.write(tmp_path)
    assert not list(tmp_path.iterdir())
