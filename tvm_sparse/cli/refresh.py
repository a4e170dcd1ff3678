"""``tvm-sparse refresh``: new values into an artifact, without compiling."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tvm_sparse.cli import console
from tvm_sparse.cli.options import Debug, Json


def refresh_command(
    artifact: Annotated[Path, typer.Argument(metavar="DIR", help="A refreshable artifact.")],
    *,
    weights: Annotated[
        Path,
        typer.Option("--weights", "-w", metavar="FILE", help="A .safetensors file, same masks."),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Directory to write the artifact to."),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace an artifact that exists.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a copy of DIR with other values of the same masks; nothing is compiled."""
    with console.errors(debug):
        from tvm_sparse.program.refresh import refresh

        manifest = refresh(artifact, weights, output, force=force)
        if json:
            arrays = len(manifest.weights)
            console.show_json(
                {"artifact": str(output), "library": manifest.library, "arrays": arrays}
            )
        else:
            console.show(f"wrote {output}")
