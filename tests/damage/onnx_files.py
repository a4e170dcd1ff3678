"""Damage ONNX graphs one thing at a time, and compare what still compiles with onnxruntime."""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

import tvm_sparse as ts
from tests.damage.onnx_graphs import GRAPHS
from tests.damage.watch import report
from tvm_sparse.frontends.onnx.types import to_tensor

COMPILED = 8
"""Of so many cases that are imported one is compiled; the others run in PyTorch."""

LARGEST = 1 << 20
"""Elements of an input that a graph is run with."""

NUMBERS = [0, -1, 1, 2, 3, 7, -9, 2**31, 2**62, -(2**63)]
FLOATS = [0.0, -0.0, -0.5, 1e-45, 1e18, np.inf, -np.inf, np.nan]
"""Sums of the large one do not overflow: in what order infinities arise, libraries differ."""
KINDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 21, 22, 23, 99]
Random = random.Random


def _values(model: Any) -> list[str]:
    nodes = [name for node in model.graph.node for name in node.output if name]
    held = [tensor.name for tensor in model.graph.initializer]
    return [*nodes, *held, *(value.name for value in model.graph.input)]


def _weight(model: Any, generator: Random) -> Any | None:
    return generator.choice(model.graph.initializer) if model.graph.initializer else None


def drop_input(model: Any, generator: Random) -> None:
    node = generator.choice(model.graph.node)
    if node.input:
        place = generator.randrange(len(node.input))
        if generator.random() < 0.5:
            node.input[place] = ""
        else:
            del node.input[place]


def swap_inputs(model: Any, generator: Random) -> None:
    node = generator.choice(model.graph.node)
    if len(node.input) > 1:
        a, b = generator.sample(range(len(node.input)), 2)
        node.input[a], node.input[b] = node.input[b], node.input[a]


def rewire(model: Any, generator: Random) -> None:
    """Read another value, a later one perhaps, or one that nobody gives."""
    node = generator.choice(model.graph.node)
    if node.input:
        names = [*_values(model), "nobody"]
        node.input[generator.randrange(len(node.input))] = generator.choice(names)


def more_inputs(model: Any, generator: Random) -> None:
    node = generator.choice(model.graph.node)
    node.input.extend(generator.choices(_values(model), k=generator.randint(1, 3)))


def rename_output(model: Any, generator: Random) -> None:
    node = generator.choice(model.graph.node)
    node.output[0] = generator.choice([*_values(model), "", "other"])


def reshape_weight(model: Any, generator: Random) -> None:
    """Give a weight another rank or shape, with as many elements or not."""
    tensor = _weight(model, generator)
    if tensor is None:
        return
    array = numpy_helper.to_array(tensor)
    shapes: list[Callable[[], np.ndarray]] = [
        lambda: array.reshape(-1),
        lambda: array[None],
        lambda: array.reshape(-1)[:1],
        lambda: array.reshape(-1)[:0],
        lambda: array.reshape(-1)[: max(1, array.size - 1)],
        lambda: np.repeat(array.reshape(-1), 2),
        lambda: array.reshape(-1)[0].reshape(()),
        lambda: array.T,
        lambda: np.broadcast_to(array, (2, *array.shape)),
    ]
    changed = np.ascontiguousarray(generator.choice(shapes)()).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(changed, tensor.name))


def retype_weight(model: Any, generator: Random) -> None:
    tensor = _weight(model, generator)
    if tensor is not None:
        kinds = [np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.float64, np.bool_]
        with np.errstate(all="ignore"):
            array = numpy_helper.to_array(tensor).astype(generator.choice(kinds))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def odd_numbers(model: Any, generator: Random) -> None:
    """Put zeros, negative numbers, NaN or great ones into a scale, a zero point, a shape."""
    tensor = _weight(model, generator)
    if tensor is None:
        return
    array = np.array(numpy_helper.to_array(tensor))
    if array.size:
        place = generator.randrange(array.size)
        numbers: list[Any] = FLOATS if array.dtype.kind == "f" else NUMBERS
        with np.errstate(all="ignore"):
            value = np.asarray(generator.choice(numbers)).astype(array.dtype)
        if generator.random() < 0.3:
            array[...] = value
        else:
            array.reshape(-1)[place] = value
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def lie_about_a_weight(model: Any, generator: Random) -> None:
    """Change the extents or the type of a weight, not its data."""
    tensor = _weight(model, generator)
    if tensor is None:
        return
    if tensor.dims and generator.random() < 0.5:
        tensor.dims[generator.randrange(len(tensor.dims))] = generator.choice(NUMBERS)
    elif generator.random() < 0.5:
        tensor.data_type = generator.choice(KINDS)
    else:
        tensor.raw_data = tensor.raw_data[: generator.randrange(len(tensor.raw_data) + 1)]


def lose_a_weight(model: Any, generator: Random) -> None:
    if model.graph.initializer:
        del model.graph.initializer[generator.randrange(len(model.graph.initializer))]


def repeat_a_weight(model: Any, generator: Random) -> None:
    tensor = _weight(model, generator)
    if tensor is not None:
        model.graph.initializer.add().CopyFrom(tensor)


def elsewhere(model: Any, generator: Random) -> None:
    """Say that a weight lies in another file."""
    tensor = _weight(model, generator)
    if tensor is not None:
        places = [
            "../w.bin",
            "/etc/passwd",
            "none.bin",
            "",
            ".",
            "w\0.bin",
            "/dev/zero",
            "a" * 5000,
        ]
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=generator.choice(places))
        if generator.random() < 0.5:
            key = generator.choice(["offset", "length", "odd"])
            tensor.external_data.add(key=key, value=generator.choice(["-1", "x", "9" * 30, "8"]))


def attribute(model: Any, generator: Random) -> None:
    """Change, drop, repeat or add an attribute."""
    node = generator.choice(model.graph.node)
    if not node.attribute or generator.random() < 0.25:
        names = ["axis", "block_size", "num_heads", "transA", "alpha", "odd", "group", "auto_pad"]
        values = [0, -1, 2**62, 1.5, "SAME_UPPER", [1, 2], [-1]]
        node.attribute.append(
            helper.make_attribute(generator.choice(names), generator.choice(values))
        )
        return
    place = generator.randrange(len(node.attribute))
    found = node.attribute[place]
    if generator.random() < 0.2:
        del node.attribute[place]
    elif found.type == found.INT:
        found.i = generator.choice(NUMBERS)
    elif found.type == found.INTS:
        kind = generator.randrange(3)
        if kind == 0 and found.ints:
            found.ints[generator.randrange(len(found.ints))] = generator.choice(NUMBERS)
        elif kind == 1 and found.ints:
            del found.ints[-1]
        else:
            found.ints.append(generator.choice(NUMBERS))
    elif found.type == found.FLOAT:
        found.f = generator.choice(FLOATS)
    elif found.type == found.STRING:
        found.s = generator.choice([b"", b"odd", b"\xff\xfe", b"Relu" * 99])
    else:
        found.type = found.INT


def operator(model: Any, generator: Random) -> None:
    """Let a node be another operator, or one of another domain."""
    node = generator.choice(model.graph.node)
    if generator.random() < 0.6:
        others = [n.op_type for made in GRAPHS.values() for n in made.graph.node]
        node.op_type = generator.choice(
            [*others, "Odd", "", "NonZero", "NonMaxSuppression", "Loop"]
        )
    else:
        node.domain = generator.choice(["", "com.microsoft", "ai.onnx", "ai.onnx.ml", "own"])


def opset(model: Any, generator: Random) -> None:
    entry = generator.choice(model.opset_import)
    entry.version = generator.choice([1, 6, 7, 9, 10, 12, 13, 18, 20, 21, 22, 23, 24, 99, 0, -1])


def input_type(model: Any, generator: Random) -> None:
    """Change the type, the rank, an extent or the name of the input."""
    kind = model.graph.input[0].type.tensor_type
    dims = kind.shape.dim
    choice = generator.randrange(5)
    if choice == 0:
        kind.elem_type = generator.choice(KINDS)
    elif choice == 1 and dims:
        dims[generator.randrange(len(dims))].dim_value = generator.choice(NUMBERS)
    elif choice == 2 and dims:
        dims[generator.randrange(len(dims))].dim_param = generator.choice(
            ["n", "x", "1", "", "a b"]
        )
    elif choice == 3:
        dims.add(dim_value=1)
    elif dims:
        del dims[0]


def lose_a_node(model: Any, generator: Random) -> None:
    del model.graph.node[generator.randrange(len(model.graph.node))]


def repeat_a_node(model: Any, generator: Random) -> None:
    """Repeat a node: its outputs are given twice, or under other names."""
    model.graph.node.append(generator.choice(model.graph.node))
    if generator.random() < 0.5:
        model.graph.node[-1].output[0] = "other"


def order(model: Any, generator: Random) -> None:
    nodes = list(model.graph.node)
    generator.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def results(model: Any, generator: Random) -> None:
    names = generator.choices([*_values(model), "nobody", ""], k=generator.randint(0, 2))
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)


DAMAGES = (
    *(drop_input, swap_inputs, rewire, more_inputs, rename_output, reshape_weight, retype_weight),
    *(odd_numbers, lie_about_a_weight, lose_a_weight, repeat_a_weight, elsewhere, attribute),
    *(operator, opset, input_type, lose_a_node, repeat_a_node, order, results),
    *(reshape_weight, retype_weight, odd_numbers, attribute, attribute),
)
"""The last ones twice: they reach furthest."""


def damaged(seed: int) -> tuple[str, onnx.ModelProto]:
    """Return what is damaged in which graph, and the graph."""
    generator = Random(seed)
    name = generator.choice(list(GRAPHS))
    damage = generator.choice(DAMAGES)
    model = onnx.ModelProto()
    model.CopyFrom(GRAPHS[name])
    damage(model, generator)
    return f"{damage.__name__} of {name}", model


def run(seed: int, *, compiled: bool) -> tuple[str, str]:
    """Return what was damaged, and ``refused``, ``right`` or what is wrong.

    PyTorch's own kernels differ from onnxruntime's in what they make of NaN and Inf (attention).
    Where it differs, the compiled program is judged.
    """
    what, model = damaged(seed)
    print(f"{seed} {what}: ours", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "model.onnx")
        path.write_bytes(model.SerializeToString())
        try:
            program = _compiled(path) if compiled else _eager(path)
            inputs = _inputs(model)
            if inputs is None:
                return what, "right"
            found = program(inputs)
        except ts.SparseError:
            return what, "refused"
        print(f"{seed} {what}: onnxruntime", file=sys.stderr, flush=True)
        wanted = _by_onnxruntime(path, model, inputs)
    result = "right" if wanted is None else _difference(found, wanted)
    return run(seed, compiled=True) if result != "right" and not compiled else (what, result)


def _compiled(path: Path) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    library = ts.compile(path, config=ts.Config(measure=False, cache=False, tuned=False))
    return lambda inputs: [np.from_dlpack(x) for x in library.run(*inputs)]


def _eager(path: Path) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """Return the graph in PyTorch; that it can be imported is tried, too."""
    from tvm_sparse.frontends.onnx.network import Network
    from tvm_sparse.frontends.onnx.reader import read_onnx
    from tvm_sparse.frontends.onnx.weights import take_weights

    ts.load(path)
    proto = read_onnx(path)
    network = Network(proto, take_weights(proto))
    return lambda inputs: [y.numpy() for y in network(*map(to_tensor, inputs))]


def _inputs(model: Any) -> list[np.ndarray] | None:
    """Return small numbers for the inputs, ``None`` if they are huge; open extents are three.

    A negative extent is open, for onnxruntime too.
    """
    generator, made = np.random.default_rng(0), []
    held = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in held:
            continue
        kind = value.type.tensor_type
        dims = kind.shape.dim
        shape = [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else 3 for d in dims]
        if np.prod([float(extent) for extent in shape]) > LARGEST:
            return None
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        floats = generator.standard_normal(shape)
        made.append((floats if dtype.kind not in "biu" else abs(floats) * 2).astype(dtype))
    return made


def _by_onnxruntime(path: Path, model: Any, inputs: list[np.ndarray]) -> list[np.ndarray] | None:
    """Return what onnxruntime makes of it, ``None`` if it does not take it, or cannot be exact."""
    if _cancels(model):
        return None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(str(path), options)
        names = [value.name for value in session.get_inputs()]
        return list(session.run(None, dict(zip(names, inputs, strict=True))))
    except Exception:  # whatever its reason
        return None


def _cancels(model: Any) -> bool:
    """Whether onnxruntime adds numbers that cancel: products of a large scale and zero points.

    Of two zeros of a scale of 1e18 its QLinearAdd makes the least byte; exactly it is zero.
    """
    scales = (numpy_helper.to_array(t) for t in model.graph.initializer)
    large = any(s.dtype.kind == "f" and s.size == 1 and abs(s.item()) > 1e9 for s in scales)
    return large and any(node.op_type == "QLinearAdd" for node in model.graph.node)


def _difference(found: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    """Return ``right``, or how outputs differ; a step of quantization or two is none."""
    if len(found) != len(wanted):
        return f"wrong: {len(found)} outputs for {len(wanted)}"
    for a, b in zip(found, wanted, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"wrong: {a.dtype}{list(a.shape)} for {b.dtype}{list(b.shape)}"
        left, right = (np.asarray(x, np.float64) for x in (a, b))
        plain = np.isfinite(right)
        if (np.isfinite(left) != plain).any():
            return "wrong: not finite elsewhere"
        size = max(1e-6, float(abs(right[plain]).max(initial=0)))
        error = float(abs(left[plain] - right[plain]).max(initial=0))
        if error > 0.03 * size:
            return f"wrong: by {error:.3g} of {size:.3g}"
    return "right"


def _case(seed: int) -> tuple[str, str]:
    try:
        return run(seed, compiled=seed % COMPILED == 0)
    except Exception as error:  # any that is not ours is a finding
        return damaged(seed)[0], f"{type(error).__name__}: {str(error)[:200]}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    report(sys.argv[1], _case)
