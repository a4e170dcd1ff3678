import re

from benchmarks.pages import gpu_verdict
from benchmarks.pages.gpu_pages import PARTS

ENVIRONMENT = {"gpu": "NVIDIA A1", "date": "2026-12-01"}


def row(rows, pattern, sparsity, ours, library, **more):
    times = {"ours": {"median_us": ours}, "cublas": {"median_us": library}}
    case = f"8192x8192, float16, N={rows}, {pattern} {sparsity:.0%}"
    about = {"rows": rows, "pattern": pattern, "sparsity": sparsity, "times": times}
    return {"case": case, "libraries_dense": ["cublas"], "environment": ENVIRONMENT} | about | more


GRID = [
    row(1, "balanced", 0.75, 10.0, 20.0),
    row(8, "balanced", 0.9, 10.0, 35.0),
    row(32, "balanced", 0.75, 20.0, 10.0),
    row(1, "block 64x64", 0.75, 10.0, 15.0),
    row(32, "block 64x64", 0.75, 10.0, 15.0),
    row(32, "block 32x32", 0.75, 10.0, 9.0),
    row(256, "block 64x64", 0.75, 10.0, 5.0),
    row(16, "block 64x64", 0.9, 10.0, 5.0, contaminated={"cublas": "why"}),
    row(4096, "none", 0.0, 10.0, 4.0),
]


def told(**parts):
    return gpu_verdict.lines({part: None for part in PARTS} | parts)


def test_five_sentences_come_first():
    text = " ".join(told(grid={"rows": GRID})[:5])
    assert len(re.findall(r"\.(?: |$)", text)) == 6  # the first line has two: what a figure is
    assert "N = 1 to 8 rows of activations, blocks gain (1.50x), banks of 32 gain (2.00 to" in text
    assert "blocks gain or lose (0.90 to 1.50x; 1 withdrawn), banks of 32 lose (0.50x)" in text
    assert "blocks lose (0.50x), banks of 32 have no figure (not yet), and unpruned" in text
    assert "any GPU but NVIDIA A1" in text
    assert "`metrics` `models` `tune` `flush`" in text


def test_networks_are_named_with_their_ratio():
    network = {"case": "perceptron", "environment": ENVIRONMENT}
    times = {"ours dense": {"median_us": 10.0}, "torch eager": {"median_us": 30.0}}
    text = " ".join(told(models={"rows": [network | {"times": times}]}))
    assert "perceptron (3.00x)" in text
    marks = {"contaminated": {"torch eager": "why"}}
    text = " ".join(told(models={"rows": [network | {"times": times} | marks]}))
    assert "perceptron (withdrawn, its times hold the host's)" in text
    assert "Never run: separable digits; mobilenet" in text


def test_without_measurements_that_is_said():
    assert "No kernel was measured on a GPU yet" in " ".join(told())
