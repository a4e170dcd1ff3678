"""Everything that docs/deploy.md shows is run, in order, in one directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

import tvm_sparse as ts
from tests.artifact.programs import linear_artifact
from tests.runtime import native
from tests.test_readme import BLOCK, ROOT

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


def test_all_blocks(linear_artifact, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(linear_artifact, "model.tvms")
    shutil.copytree(ROOT / "examples", "examples")
    np.save("x.npy", np.zeros((2, 64), np.float32))
    model, example = nn.Sequential(nn.Linear(64, 32), nn.ReLU()).eval(), torch.zeros(2, 64)
    compiled = ts.compile(model, (example,))
    torch.export.save(torch.export.export(model, (example,)), "model.pt2")
    save_file({name: 2 * value for name, value in model.state_dict().items()}, "new.safetensors")
    names = {"ts": ts, "model": model, "example": example, "compiled": compiled}
    run = {"python": lambda text: exec(text, names), "sh": shell}
    ran = [run[language](text) for language, text in BLOCK.findall(PAGE)]
    assert len(ran) >= 9
