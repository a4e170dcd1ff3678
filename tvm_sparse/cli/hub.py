"""``tvm-sparse push`` and ``pull``: artifacts in repositories of the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tvm_sparse.cli import console
from tvm_sparse.cli.options import Debug, Json

Repository = Annotated[str, typer.Argument(metavar="OWNER/NAME", help="A repository of the Hub.")]


def push_command(
    artifact: Annotated[Path, typer.Argument(metavar="DIR", help="An exported artifact.")],
    repository: Repository,
    *,
    private: Annotated[
        bool, typer.Option("--private", help="Make a repository that only its owner reads.")
    ] = False,
    revision: Annotated[str | None, typer.Option(help="Branch; by default the main one.")] = None,
    license: Annotated[
        str | None, typer.Option(metavar="ID", help="For the card, as in apache-2.0.")
    ] = None,
    base_model: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="For the card: the model that was compiled."),
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Of the commit.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write DIR and a card that describes it into a repository; make the repository."""
    with console.errors(debug):
        from tvm_sparse_runtime.hub import push

        url = push(
            artifact,
            repository,
            private=private,
            revision=revision,
            license=license,
            base_model=base_model,
            message=message,
        )
        if json:
            console.show_json({"commit": url})
        else:
            console.show(f"wrote {url}")


def pull_command(
    repository: Repository,
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Folder to put the artifact into."),
    ] = Path(),
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Fetch the artifact of a repository. Running it runs its code: know whose it is."""
    with console.errors(debug):
        from tvm_sparse_runtime.hub import pull

        artifact = pull(repository, output, revision=revision)
        if json:
            console.show_json({"artifact": str(artifact)})
        else:
            console.show(f"wrote {artifact}")
