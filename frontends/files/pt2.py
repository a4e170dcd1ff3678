"""``.pt2`` files: checked and copied member by member, so that loading one never runs its code."""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed

from tvm_sparse.base import json_text
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.pt2_payload import vetted_payload
from tvm_sparse.frontends.files.pt2_program import vetted
from tvm_sparse.frontends.quiet import quiet

_MEMBERS = re.compile(
    r"models/model\.json|data/sample_inputs/model\.pt|archive_format|archive_version|byteorder"
    r"|data/weights/(model_weights_config\.json|weight_\d+)"
    r"|data/constants/(model_constants_config\.json|tensor_\d+)|\.data/version"
)
_IGNORED = re.compile(r"\.data/serialization_id|extra/.*|\.format_version|\.storage_alignment")
_TODO = "write it again with torch.export.save(torch.export.export(model, inputs), path)"


def load_pt2(path: Path) -> torch.export.ExportedProgram:
    """Return the program in the file ``path``, written by :func:`torch.export.save`.

    Every member is checked and written into a fresh archive, which is what PyTorch then reads:
    pickled members only after ``weights_only`` unpickling, the program only in a plain form (see
    :mod:`tvm_sparse.frontends.files.pt2_program`), no compiled code.

    Raises
    ------
    InputError
        The file is missing, no ``.pt2`` file, damaged, of another version, or not safe to read.
    """
    if not path.is_file():
        raise InputError(str(path), "no such file", "a .pt2 file", "check the path")
    with tempfile.TemporaryFile(suffix=".pt2") as clean:
        try:
            with zipfile.ZipFile(path) as source, zipfile.ZipFile(clean, "w") as target:
                _copy(source, target, str(path))
        except InputError:
            raise
        except Exception as error:  # a damaged directory of members fails in many ways
            raise InputError(
                str(path), f"cannot be read as a zip archive ({error})", "a .pt2 file", _TODO
            ) from error
        clean.seek(0)
        return _load(clean, str(path))


def _load(file: Any, where: str) -> torch.export.ExportedProgram:
    from torch.export.pt2_archive._package import load_pt2 as load_archive

    with quiet():
        try:
            return load_archive(file).exported_programs["model"]
        except Exception as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise InputError(
                where,
                f"torch {torch.__version__} cannot read its program ({reason[0]})",
                "a file of the same torch version",
                _TODO,
            ) from error


def _copy(source: zipfile.ZipFile, target: zipfile.ZipFile, where: str) -> None:
    members = _members(source, where)
    if "models/model.json" not in members:
        what = "the format of torch before 2.8" if "version" in members else "no exported program"
        raise InputError(where, f"holds {what}", "a .pt2 file with models/model.json", _TODO)
    for name, info in members.items():
        if _IGNORED.fullmatch(name):
            continue
        if not _MEMBERS.fullmatch(name):
            compiled = name.startswith("data/aotinductor/")
            what = "compiled code" if compiled else "a member that no plain model has"
            raise InputError(where, f"'{name}' is {what}", "an exported program", _TODO)
        folder = f"{name.rpartition('/')[0]}/"
        sizes = {n.removeprefix(folder): i.file_size for n, i in members.items()}
        target.writestr(f"model/{name}", _checked(name, source.read(info), sizes, where))


def _members(source: zipfile.ZipFile, where: str) -> dict[str, zipfile.ZipInfo]:
    """Return the members of ``source`` by their name below the archive's root folder."""
    result: dict[str, zipfile.ZipInfo] = {}
    for info in source.infolist():
        parts = PurePosixPath(info.filename).parts
        name = "/".join(parts[1:]) if len(parts) > 1 else info.filename
        if info.compress_type != zipfile.ZIP_STORED or name in result:
            reason = "is compressed" if name not in result else "is there twice"
            raise InputError(where, f"'{name}' {reason}", "each member once and stored", _TODO)
        result[name] = info
    room = os.fstat(source.fp.fileno()).st_size if source.fp else 0
    if sum(info.file_size for info in result.values()) > room:
        raise InputError(where, "members overlap", f"no more than its {room} bytes", _TODO)
    return result


def _checked(name: str, data: bytes, sizes: dict[str, int], where: str) -> bytes:
    """Return the content of one member in a form that is safe to hand to PyTorch.

    ``sizes`` has the bytes of the members beside it.
    """
    if name.endswith(".pt"):
        return _unpickled(name, data, where) if data else data
    if not name.endswith(".json"):
        return data
    try:
        content = json_text.parsed(data)
        if name == "models/model.json":
            content = vetted(content, where)
        else:
            content = vetted_payload(content, sizes, where)
    except InputError:
        raise
    except Exception as error:  # whatever a value of another type leads to
        raise InputError(where, f"'{name}' is damaged ({error})", "valid JSON", _TODO) from error
    return json.dumps(content).encode()


def _unpickled(name: str, data: bytes, where: str) -> bytes:
    """Return a pickled member written anew from what restricted unpickling gives."""
    try:
        value = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:
        raise InputError(
            where,
            f"'{name}' holds pickled code or objects, not tensors",
            "tensors and plain containers only; nothing of it was run",
            "do not use the file unless you trust its author; " + _TODO,
        ) from error
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()
