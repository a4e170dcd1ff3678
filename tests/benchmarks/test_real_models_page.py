"""Every model has a line of speeds and a line of accuracies."""

from __future__ import annotations

from benchmarks.pages import real_models_page

ROW = {
    **{"model": "net", "package": "p", "measure": "share", "shape": "1x8"},
    "ms": {
        **{"onnxruntime, published": 4.0, "openvino, published": 3.0, "ours, published": 2.0},
        **{"ours, 75 % zeros": 1.0, "openvino, int8": 1.5, "ours, int8": 1.0},
    },
    "scores": {
        **{"onnxruntime, published": 0.5, "openvino, published": 0.5, "openvino, int8": 0.45},
        **{"ours, published": 0.5, "ours, 75 % zeros": 0.25},
    },
    "refused": {"ours, 50 % zeros": "no such layer"},
    **{"cpu": "a CPU", "shared": True},
}
FOUND = {"environment": {"versions": {"openvino": "1.0"}}, "rows": [ROW]}


def test_rows_are_lines():
    text = real_models_page.page(FOUND)
    assert "| net | 1x8 | openvino 3 ms | 1.50x |  | 3.00x | openvino 1.5 ms | 1.50x |  |" in text
    assert "| net | share | 0.500 | 0.500 |  | 0.250 |  |  |  |  |  |  |" in text
    assert "a CPU, which others used, too: net." in text
    assert "* net, ours, 50 % zeros: no such layer" in text


def test_the_verdict_counts():
    slow = {**ROW, "ms": {**ROW["ms"], "ours, published": 4.0, "ours, 75 % zeros": 2.5}}
    said = real_models_page.verdict([ROW, slow, {**ROW, "ms": {"ours, published": 1.0}}])
    assert said.startswith("Of 3 trained models, 1 run as published at least as fast")
    assert "1 of the 2 that can be pruned run at least 1.5 times as fast" in said


def test_programs_that_lose_score_do_not_count():
    line = "| net | openvino, published | 3 | published | 2 | 1.50x |"
    assert line in real_models_page.page(FOUND)
    good = {**ROW["scores"], "ours, 75 % zeros, trained": 0.49}
    line = "| net | openvino, published | 3 | 75 % zeros, trained | 1 | 3.00x |"
    assert line in real_models_page.page({**FOUND, "rows": [{**ROW, "scores": good}]})
    said = real_models_page.verdict([ROW, {**ROW, "scores": good}])
    assert "the fastest of ours runs 2.25 times as fast as the fastest of others" in said
    alone = {**ROW, "scores": {"ours, published": 1.0}}
    assert "| net |  |  |  |  |  |" in real_models_page.page({**FOUND, "rows": [alone]})


def test_plans_are_lines():
    promised = {"ms": 1.5, "drop": 0.015, "zeros": 0.5, "speedup": 2.0, "seconds": 31}
    planned = {
        **ROW,
        "plans": {"plan for 2x": promised},
        "ms": {**ROW["ms"], "ours, plan for 2x": 1.55},
        "scores": {**ROW["scores"], "ours, plan for 2x": 0.49, "ours, plan for 2x, int8": 0.48},
    }
    text = real_models_page.page({**FOUND, "rows": [planned]})
    line = "| net | plan for 2x | 50.0% | 0.015 | 1.5 | 1.55 | 31 | 0.490 |  | 0.480 |  |"
    assert line in text
    assert "## Plans for a speed" not in real_models_page.page(FOUND)


def test_what_training_keeps_is_counted():
    trained = {"ours, 75 % zeros, trained": 0.49}
    learned = {
        **ROW,
        "scores": {**ROW["scores"], **trained},
        "training": {"75 % zeros": {"steps": 7, "seconds": 61}},
    }
    text = real_models_page.page({**FOUND, "rows": [ROW, learned]})
    assert "With 75 % zeros, 0 of 1 keep their score within 0.02; 1 after at most 2 minutes" in text
    assert "| net | share | 0.500 | 0.500 |  | 0.250 | 0.490 |  |  |  | 7 | 61 |" in text
    assert "keep their score" not in real_models_page.page(FOUND)


def test_nothing_is_written_without_results(tmp_path, monkeypatch):
    monkeypatch.setattr(real_models_page, "load", lambda name: {})
    real_models_page.write(tmp_path)
    assert not list(tmp_path.iterdir())
