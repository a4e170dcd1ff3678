"""A user's stderr has our words only: nothing of TVM's log, of torch's or of torchao's."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MODELS = """
import gc, sys, torch
from torch import nn
import tvm_sparse as ts

class Apply(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.layer = function, nn.Linear(8, 8)
    def forward(self, x):
        return self.function(self.layer(x))

FUNCTIONS = {
    "plain": torch.relu, "unused": lambda x: (x.topk(2), torch.relu(x))[1],
    "sorted": lambda x: x.sort()[0], "nonzero": torch.nonzero, "mask": lambda x: x[x > 0],
    "random": torch.rand_like, "branch": lambda x: x if x.sum() > 0 else -x,
    "strings": lambda x: {"a": x, "b": "text"},
    "complex": lambda x: torch.view_as_complex(x.reshape(4, 2, 2)),
    "histogram": lambda x: torch.bincount(x.int().flatten().abs()),
    "fake": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
    "padded": lambda x: torch.ops.aten._pack_padded_sequence(x[None], torch.tensor([1]), True)[0],
}
x = torch.zeros(2, 8)
for name, function in FUNCTIONS.items():
    try:
        ts.compile(Apply(function).eval(), (x,), config=ts.Config(measure=False))
        print(name, "ok")
    except ts.errors.SparseError as error:
        print(name, "refused")
gc.collect()
"""

CONVERTED = """
import gc, torch
from torch import nn
from tvm import relax
import tvm_sparse as ts
from tvm_sparse.frontends.converters.operators import CONVERTERS

def cut(importer, node):
    return importer.block_builder.emit(relax.op.flatten(importer.env[node.args[0]]))

CONVERTERS["relu.default"] = cut
for _ in range(2):
    try:
        ts.compile(nn.Sequential(nn.Tanh(), nn.ReLU()).eval(), (torch.zeros(2, 4),))
    except ts.errors.SparseError:
        print("converter refused")
gc.collect()
"""

QUANTIZED = """
import torch
from torch import nn

def broken(path):
    raise OSError(f"cannot load {path}")

torch.ops.load_library = broken  # as where torchao was built for another release
import tvm_sparse as ts
ts.quantize(nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval(), [torch.zeros(2, 8)])
print("quantized ok")
"""


def said(code: str) -> tuple[dict[str, str], str]:
    """Run ``code`` as a user would; return what became of each case, and all of stderr."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ") for line in done.stdout.splitlines()), done.stderr


def test_what_is_refused_and_what_is_compiled_is_silent():
    """The last one meets an error in the middle of an import."""
    results, errors = said(MODELS + CONVERTED)
    assert errors == ""
    assert results["plain"] == results["unused"] == results["sorted"] == "ok"
    assert results["nonzero"] == results["random"] == results["histogram"] == "refused"
    assert results["converter"] == "refused"


@pytest.mark.slow
def test_extensions_that_torchao_cannot_load_are_not_told():
    pytest.importorskip("torchao")
    assert said(QUANTIZED) == ({"quantized": "ok"}, "")


def test_every_builder_with_a_function_ends_its_blocks():
    """Where an error may come between, ``blocks_ended`` is in the same ``with``."""
    lacking = []
    for path in (
        path for folder in ("tvm_sparse", "frontends") for path in (ROOT / folder).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.With):
                continue
            texts = [ast.unparse(item.context_expr) for item in node.items]
            makes = any(text == "function" or ".function(" in text for text in texts)
            if makes and not any("blocks_ended" in text for text in texts):
                lacking.append(f"{path.name}:{node.lineno}")
    assert lacking == []
