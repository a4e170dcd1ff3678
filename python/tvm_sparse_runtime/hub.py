"""Artifacts in repositories of the Hugging Face Hub: written with a card, and fetched.

Needs ``pip install 'tvm-sparse-runtime[hub]'``. A repository holds one artifact, in a folder of its
own, beside the card: an artifact's folder holds its own files and no others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from . import verification
from .errors import SparseRuntimeError, shown
from .hub_card import CARD, MADE, card
from .manifest import FILE_NAME


def push(
    artifact: str | Path,
    repository: str,
    *,
    private: bool = False,
    revision: str | None = None,
    license: str | None = None,
    base_model: str | None = None,
    message: str | None = None,
    token: str | None = None,
) -> str:
    """Write an artifact and its card into a repository, in one commit; make the repository.

    The artifact that the repository had is replaced. A card that somebody wrote is kept.

    Parameters
    ----------
    artifact
        Directory that ``library.export()`` wrote. Its files are compared with their checksums
        first; nothing of it is opened.
    repository
        ``"owner/name"``.
    private
        Whether a repository that is made now can be read by its owner alone.
    revision
        The branch; by default the main one.
    license, base_model
        For the card: an identifier such as ``"apache-2.0"``, and the model that was compiled.
    message
        Of the commit.
    token
        By default the one that ``hf auth login`` stored.

    Returns
    -------
    url
        Of the commit.

    Raises
    ------
    RuntimeArtifactError
        The artifact is damaged.
    SparseRuntimeError
        The package is missing, the repository cannot be written, or the Hub cannot be reached.
    """
    api = _api(token)
    directory = Path(artifact)
    manifest = verification.intact(directory)
    name = directory.resolve().name
    with _told(repository, "a repository that your token may write"):
        api.create_repo(repository, private=private, exist_ok=True)
        there = _files(api, repository, revision)
        operations = [_added(f"{name}/{path.name}", path) for path in sorted(directory.iterdir())]
        new = {operation.path_in_repo for operation in operations}
        operations += [_deleted(path) for path in sorted(set(_artifact_files(there)) - new)]
        if CARD not in there or MADE in _content(api, repository, CARD, revision):
            text = card(manifest, name, repository, license=license, base_model=base_model)
            operations.append(_added(CARD, text.encode()))
        told = (
            message or f"Artifact of tvm-sparse {manifest.versions.get('tvm_sparse', '')}".strip()
        )
        commit = api.create_commit(
            repository, operations=operations, commit_message=told, revision=revision
        )
    return str(commit.commit_url)


def pull(
    repository: str,
    directory: str | Path,
    *,
    revision: str | None = None,
    token: str | None = None,
) -> Path:
    """Fetch the artifact of a repository into ``directory``; return its path, for ``load``.

    What is there already is not fetched again. Loading an artifact runs its code: pass
    ``trusted=`` to ``load`` where you do not trust the owner of the repository, or anybody who may
    write to it.

    Parameters
    ----------
    repository
        ``"owner/name"``.
    directory
        Folder that the artifact's own folder is written to.
    revision
        A branch, a tag or a commit; by default the main branch.
    token
        By default the one that ``hf auth login`` stored.

    Raises
    ------
    RuntimeArtifactError
        What came is damaged.
    SparseRuntimeError
        The package is missing, there is no such repository or no artifact in it, or the Hub cannot
        be reached.
    """
    api = _api(token)
    with _told(repository, "a repository that there is, and that your token may read"):
        commit = api.repo_info(repository, revision=revision).sha
        name = _name(_files(api, repository, commit), repository)
        api.snapshot_download(
            repository,
            revision=commit,
            allow_patterns=[f"{name}/*"],
            local_dir=directory,
        )
    path = Path(directory, name)
    _drop_others(path)
    verification.intact(path)
    return path


def _drop_others(path: Path) -> None:
    """Remove files of an older artifact, which an earlier call fetched into the same folder."""
    own = verification.read_manifest(path).files.keys() | verification.OWN
    for found in path.iterdir():
        if found.name not in own and found.suffix in (".so", ".json"):
            found.unlink()


def _name(files: Sequence[str], repository: str) -> str:
    """Return the folder of the artifact among a repository's files."""
    names = sorted(str(folder) for folder in _folders(files) if len(folder.parts) == 1)
    if len(names) != 1:
        found = f"holds {', '.join(map(shown, names)) or 'no artifact'}"
        raise SparseRuntimeError(repository, found, "one artifact", "write it with push()")
    return names[0]


def _artifact_files(files: Sequence[str]) -> Iterator[str]:
    """Yield the files of a repository that belong to an artifact."""
    folders = _folders(files) - {PurePosixPath()}
    yield from (path for path in files if PurePosixPath(path).parent in folders)


def _folders(files: Sequence[str]) -> set[PurePosixPath]:
    """Return the folders of a repository that have a manifest."""
    return {path.parent for path in map(PurePosixPath, files) if path.name == FILE_NAME}


def _files(api: Any, repository: str, revision: str | None) -> list[str]:
    found: list[str] = api.list_repo_files(repository, revision=revision)
    return found


def _content(api: Any, repository: str, file: str, revision: str | None) -> str:
    path = api.hf_hub_download(repository, file, revision=revision)
    return Path(path).read_text(encoding="utf-8", errors="replace")


def _added(name: str, content: Path | bytes) -> Any:
    from huggingface_hub import CommitOperationAdd

    return CommitOperationAdd(path_in_repo=name, path_or_fileobj=content)


def _deleted(name: str) -> Any:
    from huggingface_hub import CommitOperationDelete

    return CommitOperationDelete(path_in_repo=name)


def _api(token: str | None) -> Any:
    try:
        from huggingface_hub import HfApi
    except ImportError:
        found, todo = "is not installed", "pip install 'tvm-sparse-runtime[hub]'"
        raise SparseRuntimeError("the package 'huggingface_hub'", found, todo=todo) from None
    return HfApi(token=token, library_name="tvm-sparse")


@contextlib.contextmanager
def _told(repository: str, expected: str) -> Iterator[None]:
    """Say in one line what the Hub's own errors say in many."""
    from huggingface_hub import errors

    try:
        yield
    except SparseRuntimeError:
        raise
    except errors.HFValidationError as error:
        raise SparseRuntimeError(repository, _first(error), "owner/name") from None
    except errors.RevisionNotFoundError as error:
        raise SparseRuntimeError(repository, _first(error), "a branch, tag or commit") from None
    except errors.HfHubHTTPError as error:
        raise SparseRuntimeError(
            repository, _first(error), expected, "see `hf auth whoami`"
        ) from None
    except Exception as error:  # the network libraries of its releases share no base
        found = f"the Hub cannot be reached ({_first(error)})"
        raise SparseRuntimeError(repository, found, todo="try again, or set HF_ENDPOINT") from None


def _first(error: Exception) -> str:
    """Return the first line of an error that says something, short."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return shown(lines[0] if lines else type(error).__name__, 160)[1:-1]
