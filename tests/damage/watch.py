"""Run damaged cases in processes that may crash or hang, and tell what became of each."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    """What one case did: ``result`` is ``refused``, ``right``, or what went wrong."""

    case: int
    what: str
    result: str


def watched(module: str, arguments: Iterable[Any], cases: range, seconds: float) -> list[Outcome]:
    """Return the outcome of each case of ``module``, whose main program is :func:`report`.

    A process that dies or is silent for ``seconds`` counts as that for its present case; the next
    process goes on behind it.
    """
    outcomes: list[Outcome] = []
    left = cases
    while left:
        done, what, ended = _batch([module, *map(str, arguments), json.dumps(list(left))], seconds)
        outcomes += done
        left = left[len(done) :]
        if left:
            outcomes.append(Outcome(left[0], what, ended))
            left = left[1:]
    return outcomes


def report(cases: str, run: Callable[[int], tuple[str, str]]) -> None:
    """Run each case of a JSON list, which returns what was damaged and what became of it."""
    for case in json.loads(cases):
        print(json.dumps({"begin": case}), flush=True)
        what, result = run(case)
        print(json.dumps({"case": case, "what": what, "result": result}), flush=True)


def bad(outcomes: list[Outcome]) -> list[Outcome]:
    """Return those that were neither refused nor right."""
    return [outcome for outcome in outcomes if outcome.result not in {"refused", "right"}]


def _batch(command: list[str], seconds: float) -> tuple[list[Outcome], str, str]:
    """Run one process; return what it finished, its last words and how it ended."""
    done, output, silent = [], b"", False
    with tempfile.TemporaryFile() as errors, selectors.DefaultSelector() as selector:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert process.stdout
        selector.register(process.stdout, selectors.EVENT_READ)
        while ready := selector.select(seconds):
            chunk = ready[0][0].fileobj.read1()
            if not chunk:
                break
            output += chunk
        silent = not ready
        if silent:
            process.kill()
        output += process.communicate()[0]
        errors.seek(0)
        words = errors.read().decode(errors="replace").strip().splitlines()[-1:]
    for line in output.splitlines():
        record = json.loads(line)
        if "case" in record:
            done.append(Outcome(**record))
    return done, " ".join(words), "hang" if silent else f"ended with {process.returncode}"
