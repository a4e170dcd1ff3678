"""An ONNX file in memory, of which some tensors get other values; all else stays what it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tvm_sparse.base.extras import require
from tvm_sparse.base.new_files import whole
from tvm_sparse.errors import InputError, SparseError

_PAGE = 4096
"""Where large tensors of a file of weights begin, so that they can be mapped into memory."""

_FREE_WEIGHTS = 4
"""Version of ONNX's format from which on weights need not be inputs."""


class Document:
    """A checked ``ModelProto``; weights in files beside it stay there until they are asked for.

    Parameters
    ----------
    source
        The path of a file, or a ``ModelProto`` that holds all of its weights. It is not changed.

    Raises
    ------
    InputError
        ``onnx`` is not installed, or the file is missing or damaged.
    """

    def __init__(self, source: Any) -> None:
        self.path = Path(source) if isinstance(source, str | Path) else None
        self.name = str(self.path or "the ONNX model")
        require("onnx", self.name)
        self.proto = self._file() if self.path else self._copy(source)
        self._tensors = [*_tensors(self.proto)]  # their identity tells which have changed
        self._changed: dict[int, np.ndarray] = {}

    def __deepcopy__(self, memo: object) -> Document:
        """Return the document itself: copies of what reads a file read the same one."""
        return self

    def _file(self) -> Any:
        import onnx

        from tvm_sparse.onnx_files.checker import check

        assert self.path is not None
        if not self.path.is_file():
            found = "is no file" if self.path.exists() else "no such file"
            raise InputError(self.name, found, "an .onnx file", "check the path")
        try:
            check(self.path)
            return onnx.load(str(self.path), load_external_data=False)
        except Exception as error:  # of ONNX and protobuf
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            found = f"is no sound ONNX model ({reason})"
            raise InputError(self.name, found, "", "export the model again") from error

    def _copy(self, source: Any) -> Any:
        import onnx

        if not isinstance(source, onnx.ModelProto):
            raise InputError("model", f"is a {type(source).__name__}", "the path of an .onnx file")
        proto = onnx.ModelProto()
        proto.CopyFrom(source)
        if any(_is_external(tensor) for tensor in _tensors(proto)):
            found = "has weights in files, whose folder is not known"
            raise InputError(self.name, found, "", "give the path of the file")
        return proto

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs that are no weights, in order."""
        own = {tensor.name for tensor in self.proto.graph.initializer}
        return [value.name for value in self.proto.graph.input if value.name not in own]

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        versions = [o.version for o in self.proto.opset_import if o.domain in ("", "ai.onnx")]
        return max(versions, default=1)

    def converted(self, opset: int) -> Document:
        """Return the model in another version of ONNX's operators, its weights with it.

        Raises
        ------
        InputError
            It cannot be converted.
        """
        import onnx

        whole = onnx.ModelProto()
        whole.CopyFrom(self.proto)
        for mine, copy in zip(_tensors(self.proto), _tensors(whole), strict=True):
            copy.CopyFrom(self._whole(mine))
        try:
            made = onnx.version_converter.convert_version(whole, opset)
        except Exception as error:  # of ONNX, and of protobuf where it is too large
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise InputError(
                self.name,
                f"has operator set {self.opset} and cannot be converted ({reason})",
                f"operator set {opset} or later",
                "export the model again",
            ) from error
        del made.metadata_props[:]
        made.metadata_props.extend(self.proto.metadata_props)
        return Document(made)

    def array(self, tensor: Any) -> np.ndarray:
        """Return the values of ``tensor``, which nobody may write to.

        Raises
        ------
        InputError
            It does not have as many elements as its shape says.
        """
        from onnx import numpy_helper

        if id(tensor) in self._changed:
            return self._changed[id(tensor)]
        try:
            return numpy_helper.to_array(self._whole(tensor))
        except Exception as error:  # of ONNX, whose types differ from version to version
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            wanted = f"a tensor of shape {list(tensor.dims)}"
            found = f"is damaged ({reason})"
            raise InputError(f"weight '{tensor.name}'", found, wanted) from error

    def digest(self) -> str:
        """Return a hash of the model with all of its weights."""
        summed = hashlib.sha256(self.proto.SerializeToString(deterministic=True))
        for tensor in filter(_is_external, self._tensors):
            summed.update(self.array(tensor).tobytes())
        return summed.hexdigest()

    def replace(self, tensor: Any, array: np.ndarray) -> None:
        """Give ``tensor`` other values of its shape and type."""
        if _is_external(tensor):
            self._changed[id(tensor)] = array
            return
        for field in ("float_data", "double_data", "int32_data"):
            tensor.ClearField(field)
        tensor.raw_data = np.ascontiguousarray(array).tobytes()

    def add(self, name: str, array: np.ndarray, like: Any) -> None:
        """Add an initializer; it is in the file beside the model if the tensor ``like`` is.

        Before version 4 of the format, initializers had to be inputs, too.
        """
        from onnx import numpy_helper

        tensor = self.proto.graph.initializer.add()
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(array, order="C"), name))
        self._tensors.append(tensor)
        self.proto.ir_version = max(self.proto.ir_version, _FREE_WEIGHTS)
        if like is not None and _is_external(like):
            tensor.ClearField("raw_data")
            tensor.data_location = tensor.EXTERNAL
            tensor.external_data.add(key="location", value=_location(like)["location"])
            self._changed[id(tensor)] = array

    def is_external(self, tensor: Any) -> bool:
        """Whether the file has ``tensor`` in another file."""
        return _is_external(tensor)

    def save(self, path: str | Path) -> None:
        """Write the model to ``path``.

        Weights that were in files beside it are in one file now, ``PATH.data``, the others in the
        model as before.

        Raises
        ------
        InputError
            The place cannot be written, or the model's own weights would be lost.
        """
        import onnx

        place = Path(path)
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        try:
            outside = [
                (mine, copy)
                for mine, copy in zip(_tensors(self.proto), _tensors(proto), strict=True)
                if _is_external(mine)
            ]
            if outside:
                data = place.with_name(place.name + ".data")
                self._check_data(place, data, [mine for mine, _ in outside])
                with whole(data) as temporary, temporary.open("wb") as file:
                    self._write(file, data.name, outside)
            with whole(place) as temporary:
                temporary.write_bytes(proto.SerializeToString())
        except SparseError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(str(place), f"cannot be written ({reason})", "a new file") from error

    def _check_data(self, place: Path, data: Path, tensors: list[Any]) -> None:
        """Refuse to write over a file that the weights come from."""
        assert self.path is not None
        own = {self.path.parent / _location(tensor)["location"] for tensor in tensors}
        if {place.resolve(), data.resolve()} & {p.resolve() for p in (*own, self.path)}:
            raise InputError(
                str(place), f"its weights come from {data.name}", "another name", "then rename both"
            )

    def _write(self, file: BinaryIO, name: str, pairs: list[tuple[Any, Any]]) -> None:
        """Write the first tensor of each pair, and let the second say where it is."""
        from onnx import TensorProto

        written: dict[tuple[str, ...], tuple[int, int]] = {}
        for mine, copy in pairs:
            found = _location(mine)
            key = (str(id(mine)),) if id(mine) in self._changed else (*map(str, found.items()),)
            if key not in written:
                content = self._bytes(mine)
                start = file.tell()
                start += -start % (_PAGE if len(content) >= _PAGE else 16)
                file.seek(start)
                file.write(content)
                written[key] = start, len(content)
            del copy.external_data[:]
            copy.data_location = TensorProto.EXTERNAL
            offset, length = written[key]
            entries = {"location": name, "offset": offset, "length": length}
            for entry, value in entries.items():
                copy.external_data.add(key=entry, value=str(value))

    def _bytes(self, tensor: Any) -> bytes:
        changed = self._changed.get(id(tensor))
        if changed is not None:
            return np.ascontiguousarray(changed).tobytes()
        self.array(tensor)  # finds fault with a file that is too short
        content: bytes = self._whole(tensor).raw_data
        return content

    def _whole(self, tensor: Any) -> Any:
        """Return ``tensor`` with its values in it."""
        from onnx import TensorProto, external_data_helper

        if not _is_external(tensor):
            return tensor
        assert self.path is not None
        copy = TensorProto()
        copy.CopyFrom(tensor)
        external_data_helper.load_external_data_for_tensor(copy, str(self.path.absolute().parent))
        copy.data_location = TensorProto.DEFAULT
        del copy.external_data[:]
        return copy


def _is_external(tensor: Any) -> bool:
    external: bool = tensor.data_location == tensor.EXTERNAL
    return external


def _location(tensor: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _tensors(proto: Any) -> Iterator[Any]:
    """Yield all dense tensors of a model, in an order that copies share."""
    waiting = [proto.graph, *proto.functions]
    while waiting:
        graph = waiting.pop()
        yield from getattr(graph, "initializer", ())
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
                waiting += [attribute.g] if attribute.HasField("g") else attribute.graphs
