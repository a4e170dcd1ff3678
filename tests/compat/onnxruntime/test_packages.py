"""Packages that import onnxruntime, with this one in its place; each runs if it is installed."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.slow

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


def _both(code: str) -> list:
    """Return what the program prints with onnxruntime, and with this package."""
    found = []
    for which in ("theirs", "ours"):
        command = [sys.executable, "-W", "ignore", "-c", BEGIN + code, which]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_silero_vad_hears_the_same():
    pytest.importorskip("silero_vad")
    theirs, ours = _both(SPEECH)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_rapidocr_reads_the_same():
    pytest.importorskip("rapidocr_onnxruntime")
    theirs, ours = _both(TEXT)
    assert ours[0] == theirs[0]
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-2)
