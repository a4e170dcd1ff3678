"""Any value of an ONNX model, computed by onnxruntime with weights that are given each time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tvm_sparse.base.onnxruntime_itself import onnxruntime
from tvm_sparse.errors import InputError
from tvm_sparse.onnx_files.document import Document
from tvm_sparse.onnx_files.scopes import Stored

HIDDEN = "every hidden state of {}"
"""What an output of a recurrent node is called that the model leaves out."""


class Values:
    """The values ``wanted`` of the model's own graph.

    Parameters
    ----------
    document
        Not changed.
    weights
        Tensors that become inputs, so that one session serves whatever they hold.
    wanted
        Names of values; those of :func:`hidden_states` among them.

    Raises
    ------
    InputError
        onnxruntime is not installed; when first called, it does not take the model.
    """

    def __init__(
        self, document: Document, weights: Collection[Stored], wanted: Collection[str]
    ) -> None:
        self._runtime = onnxruntime(f"calibration of {document.name}")
        self._model = document, {weight.value: weight for weight in weights}, [*wanted]
        self._session: Any = None

    def __deepcopy__(self, memo: object) -> Values:
        """Nothing in here changes: copies of a network share it."""
        return self

    def _opened(self) -> Any:
        """Return the session, which is made when it is first asked for."""
        if self._session is not None:
            return self._session
        document, onnxruntime = self._model[0], self._runtime
        proto, held = _prepared(*self._model)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(v) for v in held.values()]
        try:
            if held:
                options.add_external_initializers(list(held), values)
            content, providers = proto.SerializeToString(), ["CPUExecutionProvider"]
            self._session = onnxruntime.InferenceSession(content, options, providers=providers)
        except Exception as error:  # of onnxruntime, each of whose failures has its own type
            found = f"onnxruntime does not take the model ({_said(error)})"
            raise InputError(document.name, found, "", "prune without calibration data") from error
        self._held = values  # their memory is the session's
        return self._session

    def __call__(
        self, given: Mapping[str, np.ndarray], names: Collection[str]
    ) -> dict[str, np.ndarray]:
        """Return the values ``names`` for inputs and weights ``given``.

        Raises
        ------
        InputError
            The model does not run on them.
        """
        found = {name: given[name] for name in names if name in given}
        wanted = [name for name in names if name not in found]
        if not wanted:
            return found
        session, options = self._opened(), self._runtime.RunOptions()
        options.only_execute_path_to_fetches = True
        taken = {value.name for value in session.get_inputs()}
        feeds = {name: array for name, array in given.items() if name in taken}
        try:
            results = session.run(wanted, feeds, options)
        except Exception as error:  # as above
            raise InputError(
                "calibration",
                f"the model does not run on a batch ({_said(error)})",
                "arrays that the model takes",
                "call onnxruntime on a batch first",
            ) from error
        return found | dict(zip(wanted, results, strict=True))


def hidden_states(node: Any) -> str:
    """Return the value that has every hidden state of a recurrent ``node``."""
    outputs = [*node.output]
    return outputs[0] if outputs and outputs[0] else HIDDEN.format("".join(outputs))


def _prepared(
    document: Document, weights: Mapping[str, Stored], wanted: Collection[str]
) -> tuple[Any, dict[str, np.ndarray]]:
    """Return a model with ``weights`` as inputs and more outputs, and tensors that it lacks."""
    import onnx

    proto = onnx.ModelProto()
    proto.CopyFrom(document.proto)
    graph, held = proto.graph, dict[str, np.ndarray]()
    given = {value.name for value in graph.input}
    for name, stored in weights.items():
        tensor = stored.tensor
        if name not in given:
            info = onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
            graph.input.append(info)
    own = document.proto.graph.initializer
    held |= {t.name: document.array(t) for t in own if document.is_external(t)}
    held = {name: array for name, array in held.items() if name not in weights}
    _keep(graph.initializer, lambda tensor: tensor.name not in weights)
    _keep(
        graph.node,
        lambda node: not (node.op_type == "Constant" and node.output[0] in weights),
    )
    for node in graph.node:
        if hidden_states(node) in wanted and hidden_states(node) not in node.output:
            node.output[0] = hidden_states(node)
    outputs = {value.name for value in graph.output}
    known = outputs | {value.name for value in graph.input}
    for name in dict.fromkeys(wanted):
        if name not in known:
            graph.output.append(onnx.ValueInfoProto(name=name))
    return proto, held


def _keep(field: Any, kept: Any) -> None:
    """Leave only what is ``kept`` of a repeated field."""
    for place in reversed([i for i, one in enumerate(field) if not kept(one)]):
        del field[place]


def _said(error: BaseException) -> str:
    """Return the part of onnxruntime's message that says what is wrong."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].split(" : ", 3)[-1].rstrip(" .")
