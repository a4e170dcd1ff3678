"""The embeddings' server answers as OpenAI's does, and refuses what is no text."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

SERVER = Path(__file__).resolve().parent.parent / "examples" / "encoder_server.py"


class Lengths:
    """Encodes a text as its length."""

    def encode(self, texts):
        return np.array([[len(text), 1] for text in texts], np.float32)


@pytest.fixture
def client():
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    testing = pytest.importorskip("fastapi.testclient")
    spec = importlib.util.spec_from_file_location("encoder_server", SERVER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return testing.TestClient(module.app_for(Lengths(), "net", most=3))


def test_texts_have_their_vectors_in_order(client):
    found = client.post("/v1/embeddings", json={"input": ["ab", "abc"]}).json()
    assert [row["embedding"] for row in found["data"]] == [[2, 1], [3, 1]]
    assert [row["index"] for row in found["data"]] == [0, 1] and found["model"] == "net"
    one = client.post("/v1/embeddings", json={"input": "ab"}).json()
    assert one["data"] == found["data"][:1]


@pytest.mark.parametrize("given", [3, [3], None, ["a"] * 4])
def test_what_is_no_text_is_refused(client, given):
    assert client.post("/v1/embeddings", json={"input": given}).status_code == 422
