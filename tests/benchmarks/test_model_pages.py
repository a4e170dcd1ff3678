"""The page of whole networks says what the rows say."""

from __future__ import annotations

from benchmarks.harness.kernel_sorts import microseconds
from benchmarks.pages import model_pages

KERNELS = [
    {"function": "fused_conv2d_dense_add_relu_bordered", "layer": "a", "rule": "r", "us": 40.0},
    {"function": "fused_conv2d_balanced_add", "layer": "b", "rule": "r", "us": 50.0},
    {"function": "fused_depthwise_dense_add", "layer": "c", "rule": "r", "us": 6.0},
    {"function": "pad2", "layer": "", "rule": "r", "us": 3.0},
    {"function": "max_pool2d", "layer": "", "rule": "r", "us": 1.0},
]


def row(threads, dense_us, sparse_us):
    times = {"openvino": 220.0, "ours dense": dense_us, "ours 87.5 %": sparse_us}
    return {
        "network": "net",
        "batch": 1,
        "threads": threads,
        "best_dense": "openvino",
        "times": {name: {"median_us": us} for name, us in times.items()},
        "ratios": {"ours dense": 220 / dense_us, "ours 87.5 %": 220 / sparse_us},
        "kernels_us": {"ours 87.5 %": microseconds(KERNELS)},
        "layers_total_us": {"ours 87.5 %": 125.0},
        "weight_bytes": {"ours dense": 8 << 20, "ours 87.5 %": 1 << 20},
        "inference_peak_bytes": {"ours 87.5 %": 5 << 20},
        "compile_peak_bytes": {"ours dense": 16 << 20, "ours 87.5 %": 8 << 20},
        "compile_code_bytes": {"ours dense": 3 << 20},
        "compile_cpu_seconds": {"ours 87.5 %": 7.4},
        "environment": {
            "cpu": "CPU",
            "cores": 2,
            "python": "3",
            "versions": {"torch": "2"},
            "date": "d",
        },
    }


def test_page():
    both = {"two_over_one": {"ours dense": 1.6, "ours 87.5 %": 2.0}}
    text = model_pages.page([row(1, 200.0, 100.0), row(2, 125.0, 50.0) | both])
    assert "| net | 1 | openvino 0.22 | 1.10x | 2.20x |" in text
    assert "| net | 1 | 1.60x | 2.00x |  |" in text
    assert "| net, batch 1 | 87.5 % | 50% | 6% | 0% | 0% | 3% | 40% | 1% | 80% |" in text
    assert "| net, batch 1 | dense | 8.0 (1.00 of dense) |  | 2.0 | 3 |  |" in text
    assert "| net, batch 1 | 87.5 % | 1.0 (0.12 of dense) | 5 | 1.0 |  | 7 |" in text


def test_each_kernel_counts_once():
    spent = microseconds(KERNELS)
    assert sum(spent.values()) == 100.0
    assert spent["first and unpruned layers"] == 40.0


def test_pictures(tmp_path):
    rows = [row(1, 200.0, 100.0)]
    model_pages.speed_up_picture(rows, tmp_path / "speed.svg")
    model_pages.waterfall(rows, tmp_path / "time.svg")
    assert all((tmp_path / f).stat().st_size > 5000 for f in ("speed.svg", "time.svg"))
