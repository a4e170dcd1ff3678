"""The programs of an artifact in words: which machines they are for, and their weights."""

from __future__ import annotations

from .manifest import Manifest, TargetRecord


def lines(manifest: Manifest, taken: Manifest | None = None) -> list[str]:
    """Return a line for each program of an artifact, none where there is one only.

    Parameters
    ----------
    manifest
        As it is in the artifact.
    taken
        That of the program which runs here, where one does.
    """
    found: list[str] = []
    if not manifest.alternatives:
        return found
    stored: set[int] = set()
    for program in manifest.programs():
        nbytes = sum(weight.nbytes for weight in program.weights)
        shared = sum(weight.nbytes for weight in program.weights if weight.offset in stored)
        stored |= {weight.offset for weight in program.weights}
        line = f"program for {name(program.target)}: {_size(nbytes)} of weights"
        if shared:
            line += f", {_size(shared)} of them are those of the programs above"
        runs = taken is not None and taken.library == program.library
        found.append(f"{line}; it runs here" if runs else line)
    return found


def name(target: TargetRecord) -> str:
    """Return what a target is called: ``sm_80, sm_90`` or ``x86-64-v3``."""
    return ", ".join(target.gpu_archs) or target.mcpu


def _size(nbytes: int) -> str:
    return f"{nbytes / 2**20:.1f} MiB"
