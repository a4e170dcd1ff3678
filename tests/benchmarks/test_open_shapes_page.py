"""Open programs beside closed ones, and beside other runtimes: a line each."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks import open_compile
from benchmarks.pages import open_shapes_page
from benchmarks.peers.open_files import OpenFile
from tools import readme_figures

ROW = {
    **{"network": "a", "numbers": "int8", "sparsity": 0.75, "threads": 1, "shape": [1, 8]},
    **{"closed_ms": 1.0, "open_ms": 1.2, "ratio": 1.2, "error": 1e-6},
    **{"cpu": "C", "shared": False, "clock": "time that passes"},
}
PEERS = {
    **{"onnxruntime, closed": 2.0, "openvino, closed": 4.0},
    **{"onnxruntime, open": 6.0, "openvino, open": 2.4},
}
FOUND = {"rows": [ROW, {**ROW, "threads": 2, "ratio": 1.4, "peers_ms": PEERS}]}


def test_rows_are_lines():
    text = open_shapes_page.page(FOUND)
    assert "C, time that passes: a." in text
    assert "On 1 thread, an open program takes 1.20 times in the median of 1 networks" in text
    assert "On 2 threads, an open program takes 1.40 times" in text
    assert "| a | int8 | 75% | 1 | 1 x 8 | 1.000 | 1.200 | 1.200 | 1.0e-06 |" in text
    beside = "| a | int8 | 75% | 2 | 1 x 8 | onnxruntime 2.000 | 0.500 | openvino 2.400 | 0.500 |"
    assert text.count(beside) == 1
    alone = {**ROW, "peers_ms": {"openvino, closed": 4.0}}
    assert "| openvino 4.000 | 0.250 | - | - |" in open_shapes_page.page({"rows": [alone]})
    assert "Beside other" not in open_shapes_page.page({"rows": [ROW]})


def test_rows_of_compilations_are_lines():
    known = {"cpu": "C", "shared": True}
    rows = [
        {**known, "network": "a", "closed_s": 2.0, "open_s": 3.0, "ratio": 1.5},
        {**known, "network": "b", "closed_s": 1.0, "open_s": 2.5, "ratio": 2.5},
    ]
    text = open_shapes_page.to_compile(rows)
    assert "C, which others used, too: a; b." in text
    assert "takes 2.00 times as long to compile in the median, 2.50 at most. 1 of 2" in text
    assert "| b | 1.00 | 2.50 | 2.50 |" in text
    assert open_shapes_page.to_compile([]) == ""


@pytest.mark.parametrize("which", ["open", "closed"])
def test_a_compilation_takes_seconds(which):
    assert open_compile.seconds("LSTM, steps", is_open=which == "open") > 0


def test_readme_has_rows_of_one_thread():
    assert "takes 1.20 times in the median of 1 networks" in readme_figures.open_shapes(FOUND)


@pytest.mark.grid
@pytest.mark.filterwarnings("ignore")  # of the exporter
@pytest.mark.parametrize("numbers", ["float32", "int8"])
def test_other_runtimes_run_open_and_closed_files(numbers, tmp_path):
    model, example = nn.Sequential(nn.Linear(8, 16), nn.ReLU()).eval(), torch.randn(3, 8)
    dims = {0: torch.export.Dim("batch", min=1, max=16)}
    file = OpenFile(model, example, dims, numbers, tmp_path)
    x = torch.randn(5, 8).clamp(example.min(), example.max())
    programs = file.programs(x, 1)
    assert {"onnxruntime, closed", "onnxruntime, open"} <= set(programs)
    for program in programs.values():
        found = torch.from_numpy(program())
        torch.testing.assert_close(
            found, model(x), rtol=0, atol=1e-5 if numbers == "float32" else 0.1
        )
