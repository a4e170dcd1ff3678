"""``tvm-sparse doctor``: is everything here that compiling, running and tuning need."""

from __future__ import annotations

from dataclasses import asdict

import typer

from tvm_sparse.cli import console, tables
from tvm_sparse.cli.options import Debug, Json


def doctor_command(*, json: Json = False, debug: Debug = False) -> None:
    """Check versions, CPU, compilers, GPU, caches and settings, and say what to do.

    Exits with 1 if something is missing without which nothing works; notes name what is left out.
    """
    with console.errors(debug):
        from tvm_sparse.cli.checks import findings

        found = findings()
        problems = [f for f in found if f.status == "problem"]
        if json:
            console.show_json({"findings": [asdict(f) for f in found]})
        else:
            rows = [(f.check, f.status, f.found, f.todo) for f in found]
            console.show(tables.table(("check", "status", "found", "to do"), rows))
            console.show(f"{len(problems)} problems" if problems else "nothing stands in the way")
        if problems:
            raise typer.Exit(1)
