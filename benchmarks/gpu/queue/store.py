"""The pieces that were run, a line of JSON each, on disk as soon as they are over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu.queue.step import Piece, Row

FILE = "queue.jsonl"
BEGUN = "begun.jsonl"
"""The piece that is being run: if a process ends in it, the next one finds its name here."""

ENDED = "the process ended in it"

Line = dict[str, Any]


class Store:
    """Lines of ``folder/queue.jsonl``; ``earlier`` are those of other runs, which stay as they are.

    ``session`` names one call of the queue, its processes included: what failed in another one is
    tried again.
    """

    def __init__(self, folder: Path, session: str, earlier: Iterable[Line] = ()) -> None:
        self.path, self.session = folder / FILE, session
        folder.mkdir(parents=True, exist_ok=True)
        self.lines = list(read(self.path))
        self._begun = folder / BEGUN
        for line in read(self._begun):
            self._write({**line, "failed": ENDED})
        self._last = {(line["step"], line["piece"]): line for line in [*earlier, *self.lines]}

    def state(self, step: str, piece: Piece) -> str:
        """Return ``"done"`` or ``"failed"``; empty if the piece is to be run."""
        line = self._last.get((step, piece.name))
        if line is None or line["key"] != piece.key:
            return ""
        here = line["session"] == self.session
        if "failed" in line:
            return "failed" if here else ""
        late = any("contaminated" in row for row in line.get("rows", ()))
        return "" if late and not here else "done"

    def begin(self, step: str, piece: Piece, environment: Row) -> None:
        """Note that a piece begins."""
        self._begun.write_text(json.dumps(self._about(step, piece, environment)) + "\n")

    def add(self, step: str, piece: Piece, environment: Row, **found: Any) -> None:
        """Save ``rows`` of a piece, or why it ``failed``."""
        self._write({**self._about(step, piece, environment), **found})
        self._last[step, piece.name] = self.lines[-1]

    def _about(self, step: str, piece: Piece, environment: Row) -> Line:
        about = {"step": step, "piece": piece.name, "part": piece.part, "key": piece.key}
        return {**about, "session": self.session, "environment": environment}

    def _write(self, line: Line) -> None:
        torn = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        with self.path.open("ab") as file:
            file.write(b"\n" * torn + json.dumps(line, default=str).encode() + b"\n")
        self.lines.append(line)
        self._begun.unlink(missing_ok=True)

    def last(self, step: str) -> list[Line]:
        """Return the last line of each piece of ``step``, of this run."""
        return list({line["piece"]: line for line in self.lines if line["step"] == step}.values())


def read(path: Path) -> Iterator[Line]:
    """Yield the lines of a file; one that is torn, because its writer was killed, is left out."""
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            continue
