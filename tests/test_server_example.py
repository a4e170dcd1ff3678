"""The server of the examples answers right, refuses what is too much, and does not grow."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.artifact.programs import linear_artifact
from tvm_sparse_runtime import load

__all__ = ["linear_artifact"]
SERVER = Path(__file__).resolve().parent.parent / "examples" / "server.py"
X = np.random.default_rng(0).random((2, 64), np.float32)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def packed(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


class Server:
    def __init__(self, artifact: Path, *options: str) -> None:
        self.port = free_port()
        command = [sys.executable, SERVER, artifact, "--port", str(self.port), *options]
        self.process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                raise RuntimeError(self.process.communicate()[1])
            time.sleep(0.1)
        self.close()
        raise RuntimeError("the server did not start")

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate()

    def answer(self, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.fixture(scope="module")
def server(linear_artifact):
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    found = Server(linear_artifact, "--sessions", "2", "--waiting", "1")
    yield found
    found.close()


def test_outputs_by_name(server, linear_artifact):
    status, body = server.answer("/run", packed(x=X))
    assert status == 200
    with np.load(io.BytesIO(body)) as found:
        for name, wanted in zip("yz", load(linear_artifact)(X), strict=True):
            np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"no file", 400, "a .npz file with ['x']"),
        (packed(other=X), 400, "a .npz file with ['x']"),
        (packed(x=X[:, :3]), 422, "expected 64 on axis 1"),
    ],
)
def test_bad_requests(server, body, status, words):
    code, text = server.answer("/run", body)
    assert (code, words in json.loads(text)["detail"]) == (status, True)


def test_too_many_at_a_time_are_turned_away(server):
    large = packed(x=np.zeros((20000, 64), np.float32))
    with ThreadPoolExecutor(16) as clients:
        found = Counter(clients.map(lambda _: server.answer("/run", large)[0], range(48)))
    assert set(found) <= {200, 503}
    assert found[200]
    metrics = json.loads(server.answer("/metrics")[1])
    assert metrics["inside"] == 0
    assert metrics["turned_away"] == found[503]


@pytest.mark.slow
def test_ten_thousand_requests(linear_artifact):
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    server = Server(linear_artifact, "--sessions", "2", "--waiting", "64")
    library = load(linear_artifact)
    inputs = [np.random.default_rng(n).random((n % 5 + 1, 64), np.float32) for n in range(50)]
    wanted = [library(x)[0] for x in inputs]

    def right(number: int) -> bool:
        status, body = server.answer("/run", packed(x=inputs[number % 50]))
        with np.load(io.BytesIO(body)) as found:
            return status == 200 and np.array_equal(found["y"], wanted[number % 50])

    try:
        with ThreadPoolExecutor(4) as clients:
            assert all(clients.map(right, range(1000)))
            warm = server.megabytes()
            assert all(clients.map(right, range(9000)))
        assert server.megabytes() < warm + 8
    finally:
        server.close()
