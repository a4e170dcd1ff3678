"""Serve a sentence encoder over HTTP, as clients of OpenAI's embeddings ask for it.

pip install fastapi uvicorn tokenizers
tvm-sparse compile encoder.onnx -o encoder.tvms
python examples/encoder_server.py encoder.tvms tokenizer.json
curl -d '{"input": ["one text", "another"]}' localhost:8000/v1/embeddings
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException

from tvm_sparse_runtime.encoder import POOLINGS, SentenceEncoder


def app_for(encoder: SentenceEncoder, name: str, most: int) -> FastAPI:
    """Return the application; a request has at most ``most`` texts."""
    app, one_call = FastAPI(), asyncio.Lock()

    @app.post("/v1/embeddings")
    async def embeddings(body: dict[str, Any]) -> dict[str, Any]:
        given = body.get("input")
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise HTTPException(422, "expected 'input': a text, or a list of texts")
        if len(texts) > most:
            raise HTTPException(422, f"{len(texts)} texts, expected at most {most}")
        async with one_call:
            vectors = await asyncio.to_thread(encoder.encode, texts)
        data = [
            {"object": "embedding", "index": i, "embedding": vector.tolist()}
            for i, vector in enumerate(vectors)
        ]
        return {"object": "list", "model": name, "data": data}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifact")
    parser.add_argument("tokenizer", help="tokenizer.json, or the folder that has it")
    parser.add_argument("--pooling", choices=POOLINGS, default="mean")
    parser.add_argument("--most", type=int, default=256, help="texts of a request")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    encoder = SentenceEncoder(options.artifact, options.tokenizer, pooling=options.pooling)
    app = app_for(encoder, options.artifact, options.most)
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
