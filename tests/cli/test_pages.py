"""The commands that docs/cli.md and docs/tuning.md show run as they stand, with small models."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.torch import save_file

from tests.frontends.onnx.graphs import branching, detecting, graph, node
from tvm_sparse.tuning.database import default_path

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FASTER = {
    "--trials 512": "--trials 2",
    "1,3,224,224": "1,3,16,16",
    "--int8": "--rounds 2",
    "--speedup 3": "--speedup 1.2",
}
"""What a test may not take the time for."""

ELSEWHERE = "--tracker"
"""In commands that other machines take part in."""

MODELS = """
import torch
from torch import nn

def resnet():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.Flatten(), nn.Linear(2304, 10)
    ).eval()
"""


@pytest.fixture
def files(here, pt2, tmp_path_factory, monkeypatch):
    """Everything that the pages speak of."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
    (here / "my_models.py").write_text(MODELS, encoding="utf-8")
    names: dict = {}
    exec(MODELS, names)
    save_file(names["resnet"]().state_dict(), here / "resnet.safetensors")
    np.save(here / "x.npy", np.ones((3, 64), np.float32))
    images = np.random.default_rng(0).random((8, 3, 16, 16), np.float32)
    np.save(here / "images.npy", images)
    onnx.save(detecting(np.ones((8, 6), np.float32)), here / "detector.onnx")
    onnx.save(branching(), here / "voice.onnx")
    product, weights = node("MatMul", "x w", "y"), {"w": np.ones((16, 16), np.float32)}
    onnx.save(graph([product], {"x": ("B", "T", 16)}, ["y"], weights), here / "model.onnx")
    return here


@pytest.mark.slow
@pytest.mark.parametrize("page", ["cli.md", "tuning.md"])
def test_commands_run(page, call, files):
    ran = 0
    for block in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        for line in block.splitlines():
            command = line
            for slow, fast in FASTER.items():
                command = command.replace(slow, fast)
            first, *arguments = shlex.split(command, comments=True) or [""]
            if first != "tvm-sparse" or ELSEWHERE in arguments:
                continue
            if "quantize" in arguments:
                np.save(files / "x.npy", np.ones((1, 3, 16, 16), np.float32))
            if "other/records.jsonl" in arguments:
                shutil.copytree(default_path(), files / "other")
            if {"compile", "-o"} <= {*arguments}:
                arguments.append("--force")
            call(*arguments)
            ran += 1
    assert ran >= 5
