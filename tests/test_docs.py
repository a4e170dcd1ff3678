"""The Python blocks of the guides run as they stand, with small models."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import typer
from safetensors.torch import save_file
from torch import nn

import tvm_sparse as ts
from tests.exported import exported
from tests.frontends.onnx.graphs import branching, detecting, graph, node
from tests.pruning import trainers
from tvm_sparse.cli.app import app
from tvm_sparse.compat import onnxruntime
from tvm_sparse.frontends.quiet import quiet

DOCS = Path(__file__).resolve().parent.parent / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ELSEWHERE = {"deploy.md", "examples.md", "extending.md", "gpu.md"}
"""Pages whose code other tests run: test_deploy_page, test_examples, extension/test_page,
test_gpu_page."""

FASTER = {
    "trials=512": "trials=2",
    "seconds=360": "seconds=0.1",
    "range(160)": "range(21)",
    "speedup=3": "levels=[0.75], bytes=16000",
    'target="cuda:h200"': 'target="cpu", config=ts.Config(measure=False)',
}
"""What a test may not take the time for, or asks of layers that are too small to gain on a GPU."""


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("body", nn.Linear(64, 64))
    model.add_module("act", nn.ReLU())
    model.add_module("head", nn.Linear(64, 32))
    return model.eval()


def separable() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 64, 1),
    ).eval()  # fmt: skip


def compiling() -> dict[str, Any]:
    return {"ts": ts, "model": network(), "x": torch.rand(3, 64)}


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(64, 64)

    def forward(self, x, mask, scale=1.0):
        return {"y": self.fc(x * mask) * scale}


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.fc = nn.Embedding(16, 64), nn.Linear(64, 64)

    def forward(self, input_ids, attention_mask):
        return self.fc(self.embedding(input_ids) * attention_mask[..., None])


def files() -> None:
    """Write the ONNX files that the page on sources reads."""
    detector = detecting(np.random.default_rng(0).random((16, 8), np.float32))
    scaled = graph([node("Mul", "x mask", "y")], {"x": ["N", "L"], "mask": ["L"]}, ["y"])
    for name, model in {"detector": detector, "voice": branching(), "m": scaled}.items():
        onnx.save(model, f"{name}.onnx")


def calling() -> dict[str, Any]:
    files()

    def tokenizer(text: str, return_tensors: str) -> dict[str, torch.Tensor]:
        ids = torch.tensor([[ord(letter) % 16 for letter in text]])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    torch.manual_seed(0)
    named = {"encoder": Encoder(), "masked": Masked(), "tokenizer": tokenizer}
    return {**compiling(), **named, "mask": torch.ones(64)}


def migrating() -> dict[str, Any]:
    model, x = network(), torch.rand(8, 64)
    Path("checkpoint").mkdir(exist_ok=True)
    save_file(model.state_dict(), "checkpoint/model.safetensors")
    with quiet():
        torch.onnx.export(model, (x,), "model.onnx", verbose=False, dynamo=True)
    sys.modules["rapidocr_onnxruntime"] = _reader(x.numpy())
    return {"ts": ts, "model": model, "x": x, "batch": x.numpy()}


def _reader(x: np.ndarray) -> ModuleType:
    """Stand in for a package that imports onnxruntime and has a file of its own."""

    def engine() -> Callable[[str], tuple[np.ndarray, float]]:
        import onnxruntime as imported

        assert imported is onnxruntime
        session = imported.InferenceSession("model.onnx")
        return lambda page: (session.run(None, {session.get_inputs()[0].name: x})[0], 0.0)

    module = ModuleType("rapidocr_onnxruntime")
    module.RapidOCR = engine
    return module


def calibrating() -> dict[str, Any]:
    exported(network(), torch.rand(3, 64), Path("model.onnx"), old=True)
    return {"model": network(), "calibration_batches": [torch.rand(3, 64)]}


def running() -> dict[str, Any]:
    ts.compile(network(), (torch.rand(3, 64),)).export("model.tvms")
    return {"x": np.zeros((3, 64), np.float32)}


def pruning() -> dict[str, Any]:
    model, dense, x = network(), network(), torch.rand(32, 64)
    exported(model, x, Path("model.onnx"), old=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    sys.modules.update(trainers.packages())
    return {
        "model": model,
        "module": trainers.Module(),
        "dense": dense,
        "train": lambda model: None,
        "calibration": [x],
        "batches": [x],
        "x": torch.rand(1, 32, 8, 8),
        "loader": [(x, torch.zeros(32, 32))],
        "criterion": nn.functional.mse_loss,
        "optimizer": optimizer,
    }


def planning() -> dict[str, Any]:
    return {"model": network(), "calibration": [torch.rand(32, 64)], "x": torch.rand(1, 64)}


BEGINNINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "artifact.md": running,
    "README.md": dict,
    "design/graph.md": compiling,
    "frontends.md": calling,
    "migration.md": migrating,
    "plan.md": planning,
    "pruning.md": pruning,
    "torch_compile.md": compiling,
    "quantization.md": calibrating,
    "tuning.md": compiling,
}
"""What the reader of each page has already."""


def pages() -> list[str]:
    """Return the pages with Python in them."""
    found = (page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md")))
    return [name for name in found if BLOCK.search((DOCS / name).read_text(encoding="utf-8"))]


def test_every_page_with_python_is_run():
    assert set(pages()) == {*BEGINNINGS, *ELSEWHERE}


@pytest.mark.grid
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "tuning.md" else ())
        for name in sorted(BEGINNINGS)
    ],
)
def test_python_blocks_run(name, tmp_path, monkeypatch, request):
    """One block builds on the names of the one before, but for models, which start afresh."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for package in ("rapidocr_onnxruntime", *trainers.packages()):
        monkeypatch.setitem(sys.modules, package, None)
    request.addfinalizer(onnxruntime.uninstall)
    names: dict[str, Any] = {}
    for block in BLOCK.findall((DOCS / name).read_text(encoding="utf-8")):
        text = block
        for slow, fast in FASTER.items():
            text = text.replace(slow, fast)
        names |= BEGINNINGS[name]()
        if "deprune" in text:
            names["model"] = separable()
        exec(compile(text, name, "exec"), names)


SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^tvm-sparse +(.*?)(?: +#.*)?$", re.MULTILINE)


def shown() -> list[tuple[str, str]]:
    """Return every command that the pages show, with its page."""
    return [
        (page.relative_to(DOCS).as_posix(), command)
        for page in sorted(DOCS.rglob("*.md"))
        for block in SHELL.findall(page.read_text(encoding="utf-8"))
        for command in COMMAND.findall(block.replace("\\\n", " "))
    ]


@pytest.mark.parametrize(("page", "command"), shown())
def test_commands_that_are_shown_exist(page, command):
    """Those that take long are not run, but their options are there."""
    name, *words = shlex.split(command)
    found = typer.main.get_command(app).commands[name]
    context = typer.Context(found, info_name=name, resilient_parsing=True)
    _, left, _ = found.make_parser(context).parse_args(words)
    assert not [word for word in left if word.startswith("-")]


NAME = re.compile(r"""["'`]((?:TVM|OMP|XDG)_[A-Z_]+|CXX|NO_COLOR)["'`]""")
SOURCES = ("tvm_sparse", "frontends", "schedules", "python")
BUILDING = {"TVM_SPARSE_BUILT_FOR_TVM", "TVM_SPARSE_BUILT_FOR_TVM_FFI", "TVM_SPARSE_VERSION"}


def test_every_variable_of_the_environment_is_on_its_page():
    """Names in quotes are those of variables: statuses and macros of C have none."""
    page = set(NAME.findall((DOCS / "environment.md").read_text(encoding="utf-8")))
    files = (f for root in SOURCES for f in (DOCS.parent / root).rglob("*"))
    texts = (f.read_text(encoding="utf-8") for f in files if f.suffix in (".py", ".cc"))
    read = {name for text in texts for name in NAME.findall(text)} - BUILDING
    assert {name for name in read if not name.startswith("TVM_FFI_STATIC")} <= page
