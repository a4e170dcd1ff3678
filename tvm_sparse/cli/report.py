"""``tvm-sparse report``: the page of an artifact that was exported before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tvm_sparse.base.extras import require
from tvm_sparse.base.new_files import whole
from tvm_sparse.cli import console, outputs
from tvm_sparse.cli.options import Debug, Force


def report_command(
    artifact: Annotated[Path, typer.Argument(metavar="DIR", help="An artifact directory.")],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.html", help="Where to write the page.")
    ],
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Write an HTML page of what was decided and measured when DIR was compiled.

    Files are verified, and its code is not run. `compile --report` writes more: masks, curves and
    the time of every kernel.
    """
    with console.errors(debug):
        require("report", "report")
        outputs.check_new_file(output, ".html", force=force)
        from tvm_sparse.report.html import render_artifact
        from tvm_sparse_runtime import verification

        with verification.opened(artifact, ask_gpu=False) as (manifest, _):
            page = render_artifact(manifest, f"Report of {artifact.stem}")
        with whole(output) as place:
            place.write_text(page, encoding="utf-8")
        console.show(f"wrote {output}")
