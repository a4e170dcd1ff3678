"""Programs as a file keeps them."""

from __future__ import annotations

import io

import torch


def reloaded(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` saved and loaded by PyTorch."""
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)
