"""The page of networks in bytes says what the rows say."""

from __future__ import annotations

from benchmarks.pages import int8_pages
from tests.benchmarks.test_model_pages import row

TIMES = {"openvino": 600.0, "openvino int8": 220.0, "onnxruntime int8": 230.0}
ERRORS = {"openvino int8": 0.02, "onnxruntime int8": 0.03, "ours dense": 0.015}


def quantized():
    found = row(1, 200.0, 100.0)
    times = found["times"] | {name: {"median_us": us} for name, us in TIMES.items()}
    return found | {
        "precision": "int8",
        "times": times,
        "best_dense": "openvino int8",
        "best_float": "openvino",
        "errors": ERRORS,
    }


def test_page():
    text = int8_pages.page([quantized()])
    assert "| net | openvino int8 0.22 | openvino 0.60 | 1.10 (3.0) |  | 2.20 (6.0) |  |" in text
    assert "| net | 2.0% | 3.0% | 1.5% |  |  |  |" in text


def test_networks_of_which_every_runtime_loses_much_are_named():
    lost = quantized() | {"network": "lost", "errors": dict.fromkeys(ERRORS, 0.4)}
    text = int8_pages.page([quantized(), lost])
    assert "Every runtime loses much of lost, whose weights are random" in text
    assert "loses much" not in int8_pages.page([quantized()])


def test_what_a_second_thread_brings():
    assert "second thread" not in int8_pages.page([quantized()])
    text = int8_pages.page([quantized() | {"two_over_one": {"ours dense": 1.5, "ours 75 %": 2.0}}])
    assert "| net | 1 | 1.50x | 2.00x |  |  |" in text


def test_runtimes_that_crash_are_named():
    crashed = {"onnxruntime int8": "SIGSEGV", "torch.compile": "SIGABRT"}
    text = int8_pages.page([quantized() | {"crashed": crashed}])
    assert "| net | openvino int8 0.22; onnxruntime int8: SIGSEGV | openvino 0.60 |" in text


def test_rows_of_other_precision_are_left_to_the_other_page(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "benchmarks.pages.model_pages.load", lambda name: {"rows": [row(1, 2.0, 1.0)]}
    )
    int8_pages.write(tmp_path)
    assert not list(tmp_path.iterdir())
