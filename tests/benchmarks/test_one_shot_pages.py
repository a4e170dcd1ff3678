from benchmarks.pages import one_shot_pages


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


def timed(pattern, level, precision, us):
    return {"pattern": pattern, "level": level, "precision": precision, "median_us": us}


TIMED = [
    timed("dense", 0.0, "float32", 8000.0),
    timed("dense", 0.0, "int8", 4000.0),
    timed(BALANCED, 0.5, "float32", 5000.0),
    timed(BALANCED, 0.5, "int8", 2500.0),
    timed("unstructured", 0.5, "float32", 6400.0),
]


def test_swaps_stand_beside_what_is_without():
    sides = {"without": row(BALANCED, 0.75, 0, 0.85), "with": row(BALANCED, 0.75, 0, 0.864)}
    found = {**FOUND, "swaps": [{"pattern": BALANCED, "level": 0.75, **sides}]}
    line = "| balanced, bank 16 | 75.0% | 0.850 [0.860] | 0.864 [0.874] | 100 to 100 |"
    assert line in one_shot_pages.page(found, [])
    assert "## What swaps add" not in one_shot_pages.page(FOUND, [])


def test_draws_are_one_line_with_their_range():
    text = one_shot_pages.page(FOUND, [])
    assert (
        "| balanced, bank 16 | 50.0% | 2 | 0.700 [0.720] | 0.960 (0.950 to 0.970) [0.970] | 100 |"
        in text
    )
    assert "| unstructured | 50.0% | 1 | 0.700 [0.720] | 0.980 [0.990] | 100 |" in text
    begin = "| 50.0% | uniform | 0.950 [0.960] | hidden states | docstrings | 200 |  | "
    assert f"{begin}0.985 [0.984] |  | 250 |" in text
    assert "## With distillation" not in one_shot_pages.page({**FOUND, "distilled": []}, [])


def test_a_row_of_a_plan_counts_its_choice_and_names_its_processor():
    own = {"layers": "planned", "text": "broad", "tokens": 1024, "cpu": "another"}
    planned = {**FOUND["distilled"][0], **own, "choice_processor_seconds": 50}
    text = one_shot_pages.page({**FOUND, "distilled": [*FOUND["distilled"], planned]}, [])
    assert "| planned | 0.950 [0.960] | hidden states | broad | 200 | 1024 | " in text
    assert "0.985 [0.984] |  | 300 |" in text
    assert "Planned levels: another." in text


def test_lines_go_up_in_sparsity(tmp_path):
    lines = one_shot_pages.curves(FOUND)
    assert [x for x, _ in lines["one-shot, balanced, bank 16"]] == [0.5, 0.75]
    assert lines["one-shot, balanced, bank 16"][0][1] == 0.96
    assert lines["distilled, uniform levels"] == [(0.5, 0.985)]
    assert set(lines) >= {"magnitude, balanced", "one-shot, unstructured"}
    for name in ("a.svg", "b.svg"):
        one_shot_pages.draw(lines, {}, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_times_are_shown_and_drawn(tmp_path):
    text = one_shot_pages.page(FOUND, TIMED)
    assert "| dense | 0.0% | 8.00 (1.00x) | 4.00 (2.00x) |" in text
    assert "| balanced, bank 16 | 50.0% | 5.00 (1.60x) | 2.50 (3.20x) |" in text
    assert "| unstructured | 50.0% | 6.40 (1.25x) |  |" in text
    assert "## Time" not in one_shot_pages.page(FOUND, [])
    lines = one_shot_pages.over_speed(FOUND, TIMED)
    assert lines == {
        "one-shot, balanced, bank 16": [(1.6, 0.96)],
        "one-shot, unstructured": [(1.25, 0.98)],
        "distilled, uniform levels": [(1.6, 0.985)],
    }
    one_shot_pages.draw(one_shot_pages.curves(FOUND), lines, tmp_path / "both.svg")
    assert "times as fast as dense" in (tmp_path / "both.svg").read_text()
