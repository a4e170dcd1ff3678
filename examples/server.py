"""Serve an artifact over HTTP: ``uvicorn`` and ``fastapi`` must be installed.

python examples/server.py model.tvms --sessions 2 --waiting 64

``POST /run`` takes the inputs as arrays of a ``.npz`` file, by name, and gives the outputs so.
``GET /metrics`` counts. A request that would have to wait behind more than ``--waiting`` others is
answered with 503 at once: a queue without end only makes everybody wait.
"""

from __future__ import annotations

import argparse
import asyncio
import io
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import numpy as np
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response

import tvm_sparse_runtime as rt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Pool:
    """Sessions of one artifact, lent to one request each; all share one copy of the weights."""

    def __init__(self, library: rt.Library, sessions: int, waiting: int) -> None:
        self.free: asyncio.Queue[rt.Session] = asyncio.Queue()
        for _ in range(sessions):
            self.free.put_nowait(library.clone(threads=1))
        self.limit = sessions + waiting
        self.inside = self.answered = self.refused = self.turned_away = 0

    @asynccontextmanager
    async def session(self) -> AsyncIterator[rt.Session]:
        """Lend a session, or turn the request away."""
        if self.inside >= self.limit:
            self.turned_away += 1
            raise HTTPException(503, "too many requests are waiting", {"Retry-After": "1"})
        self.inside += 1
        try:
            session = await self.free.get()
            try:
                yield session
            finally:
                self.free.put_nowait(session)
        finally:
            self.inside -= 1


def arrays_of(body: bytes, specs: tuple[rt.TensorSpec, ...]) -> list[np.ndarray]:
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as file:
            return [file[spec.name] for spec in specs]
    except (ValueError, OSError, KeyError, EOFError) as error:
        raise HTTPException(400, f"expected a .npz file with {[s.name for s in specs]}") from error


def app_for(library: rt.Library, sessions: int, waiting: int) -> FastAPI:
    app, pool = FastAPI(), Pool(library, sessions, waiting)

    @app.post("/run")
    async def run(request: Request) -> Response:
        inputs = arrays_of(await request.body(), library.inputs)
        async with pool.session() as session:
            try:
                found = await asyncio.to_thread(session, *inputs)
            except rt.TensorError as error:
                pool.refused += 1
                raise HTTPException(422, str(error)) from error
        outputs = found if isinstance(found, tuple) else (found,)
        file = io.BytesIO()
        named = {spec.name: array for spec, array in zip(library.outputs, outputs, strict=True)}
        np.savez(file, **named)
        pool.answered += 1
        return Response(file.getvalue(), media_type="application/octet-stream")

    @app.get("/metrics")
    async def metrics() -> dict[str, int]:
        counted = ("inside", "answered", "refused", "turned_away")
        return {name: getattr(pool, name) for name in counted}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifact")
    parser.add_argument("--sessions", type=int, default=2, help="requests that run side by side")
    parser.add_argument("--waiting", type=int, default=64, help="requests that may wait")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    library = rt.load(options.artifact)
    app = app_for(library, options.sessions, options.waiting)
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
