from benchmarks import one_shot_pages


def row(pattern, level, draw, cosine):
    quality = {"cosine": cosine, "rank": cosine + 0.01}
    return {
        "pattern": pattern,
        "level": level,
        "draw": draw,
        "sparsity": level,
        "processor_seconds": 100.0,
        "magnitude": {"cosine": 0.7, "rank": 0.72},
        "one_shot": quality,
    }


BALANCED = "balanced, bank 16"
FOUND = {
    "environment": {"cpu": "a CPU", "date": "2026-11-22"},
    "rows": [
        row(BALANCED, 0.75, 0, 0.8),
        row(BALANCED, 0.5, 0, 0.95),
        row(BALANCED, 0.5, 1, 0.97),
        row("unstructured", 0.5, 0, 0.98),
    ],
    "distilled": [
        {
            **row(BALANCED, 0.5, 0, 0.95),
            "layers": "uniform",
            "steps": 200,
            "distil_processor_seconds": 150,
            "distilled": {"cosine": 0.985, "rank": 0.984},
        }
    ],
}


def test_draws_are_one_line_with_their_range():
    text = one_shot_pages.page(FOUND)
    assert (
        "| balanced, bank 16 | 50.0% | 2 | 0.700 [0.720] | 0.960 (0.950 to 0.970) [0.970] | 100 |"
        in text
    )
    assert "| unstructured | 50.0% | 1 | 0.700 [0.720] | 0.980 [0.990] | 100 |" in text
    assert "| 50.0% | uniform | 0.950 [0.960] | 200 | 0.985 [0.984] | 250 |" in text
    assert "## With distillation" not in one_shot_pages.page({**FOUND, "distilled": []})


def test_lines_go_up_in_sparsity(tmp_path):
    lines = one_shot_pages.curves(FOUND)
    assert [x for x, _ in lines["one-shot, balanced, bank 16"]] == [0.5, 0.75]
    assert lines["one-shot, balanced, bank 16"][0][1] == 0.96
    assert lines["distilled, uniform levels"] == [(0.5, 0.985)]
    assert set(lines) >= {"magnitude, balanced", "one-shot, unstructured"}
    one_shot_pages.draw(lines, tmp_path / "a.svg")
    one_shot_pages.draw(lines, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
