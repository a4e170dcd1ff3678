"""``tvm-sparse machine``: what this machine is taken for, and what steps cost on it."""

from __future__ import annotations

from typing import Annotated

import typer

from tvm_sparse.cli import console
from tvm_sparse.cli.options import Debug, Json

Fit = Annotated[
    bool,
    typer.Option("--fit", help="Measure the costs on this machine (under two minutes), keep them."),
]
TargetName = Annotated[str, typer.Option(help="CPU to describe; only this machine's is measured.")]


def machine_command(
    *, target: TargetName = "cpu", fit: Fit = False, json: Json = False, debug: Debug = False
) -> None:
    """Show what cost models take a CPU for, or measure what they are made of.

    Without measuring (`--no-measure`, other CPUs), layers are stored and computed as the cost
    models say. Costs differ between chips of one instruction set: measured ones are kept in the
    user's cache directory and used from then on. Run it while the machine is quiet.
    """
    with console.errors(debug):
        from tvm_sparse.base.targets import parse_target
        from tvm_sparse.errors import InputError
        from tvm_sparse.machine.fitted import costs_of, keep
        from tvm_sparse.machine.registry import machine_of
        from tvm_sparse.selection.fit import fit as measured

        resolved = parse_target(target)
        machine, written = machine_of(resolved.target), None
        if fit:
            if not resolved.runs_here:
                raise InputError(
                    "--fit",
                    f"code for {target} does not run here",
                    "this machine",
                    "run it on that machine",
                )
            costs = measured(resolved.target, lambda step: console.note(f"measuring {step}"))
            written = str(keep(resolved.target, costs))
        costs = costs_of(resolved.target)
        found = {"machine": machine.name, "costs": costs.to_json(), "kept": written}
        if json:
            console.show_json(found)
            return
        console.show(f"{machine.name}, costs {costs.source} (in multiply-adds of a vector):")
        for name, value in costs.to_json().items():
            if name != "source":
                console.show(f"  {name}: {_text(value)}")
        if written:
            console.show(f"wrote {written}")


def _text(value: float | tuple[tuple[int, float], ...]) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return ", ".join(f"{cost:.2f} ({size})" for size, cost in value)
