"""Everything that docs/deploy.md shows is run, in order, in one directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig

import numpy as np
import tokenizers
import torch
from safetensors.torch import save_file
from torch import nn

import tvm_sparse as ts
from tests.artifact.programs import linear_artifact
from tests.runtime import hub_server, native
from tests.test_readme import BLOCK, ROOT
from tvm_sparse_runtime import config

__all__ = ["linear_artifact"]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def shell(text: str) -> None:
    """Run a block of shell commands; installations are left out."""
    lines = [line for line in text.splitlines() if not line.startswith("pip install")]
    scripts = sysconfig.get_path("scripts")
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(lines)],
        env={**native.environment(), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def compiled(text: str) -> None:
    """Compile a block of C++ as the body of a function; what it needs is its parameters."""
    given = "tvm_sparse::Library library, const void* on_gpu, void* stream"
    lines = ["#include <tvm_sparse/runtime.hpp>", f"void block({given}) {{", text, "}"]
    compiler = [os.environ.get("CXX", "c++"), "-std=c++17", "-fsyntax-only", "-xc++", "-"]
    include = f"-I{config.place('includedir')}"
    done = subprocess.run(
        [*compiler, include], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


class Encoder(nn.Module):
    """Looks tokens up."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(8, 16)

    def forward(self, input_ids, attention_mask):
        """Return (batch, tokens, 16)."""
        return self.words(input_ids) * attention_mask[:, :, None]


class Detector(nn.Module):
    """Takes and gives what Silero's does: the state counts the chunks."""

    def forward(self, samples, state):
        """Return (1, 1) and the next state."""
        return samples.mean(1, keepdim=True) + state[:1, :, 0], state + 1


def encoder_files() -> None:
    """Write an encoder with open batch and length, and its tokeniser."""
    words = {word: number for number, word in enumerate(["?", "one", "text", "another", "longer"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save("tokenizer.json")
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    example = torch.ones(2, 4, dtype=torch.int64)
    encoder = ts.compile(Encoder().eval(), (example, example), dynamic_shapes=(axes, axes))
    encoder.export("encoder.tvms")


def test_all_blocks(linear_artifact, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(linear_artifact, "model.tvms")
    shutil.copytree(ROOT / "examples", "examples")
    np.save("x.npy", np.zeros((2, 64), np.float32))
    model, example = nn.Sequential(nn.Linear(64, 32), nn.ReLU()).eval(), torch.zeros(2, 64)
    library = ts.compile(model, (example,))
    torch.export.save(torch.export.export(model, (example,)), "model.pt2")
    save_file({name: 2 * value for name, value in model.state_dict().items()}, "new.safetensors")
    encoder_files()
    ts.compile(Detector(), (torch.zeros(1, 576), torch.zeros(2, 1, 128))).export("vad.tvms")
    names = {"ts": ts, "model": model, "example": example, "compiled": library}
    run = {"python": lambda text: exec(text, names), "sh": shell, "cpp": compiled}
    with hub_server.served() as hub:
        hub_server.asked(hub, tmp_path / "cache", monkeypatch)
        ran = [run[language](text) for language, text in BLOCK.findall(PAGE)]
    assert len(ran) >= 10
    assert names["pulled"].manifest == names["rt"].load("model.tvms").manifest
    assert names["vectors"].shape == (2, 16)
    assert names["heard"] == [0, 0, 1]
