"""Why PyTorch cannot trace a model, in the words of who wrote it."""

from __future__ import annotations

import copy
import linecache
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch._subclasses import fake_tensor
from torch.utils import _pytree as pytree

from tvm_sparse.base.words import aside, said
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.example_inputs import WHERE
from tvm_sparse.frontends.modules.effective import all_tensors
from tvm_sparse.frontends.modules.open_axes import Call
from tvm_sparse.frontends.program.operator_names import operator_name

_OURS = (Path(__file__).parents[1], Path(torch.__file__).parent)

_VALUES = (
    "its control flow depends on the values of a tensor",
    "control flow that follows from shapes and constants",
    "use torch.where or torch.cond, or compile the parts before and behind it",
)

_KNOWN: tuple[tuple[str, tuple[str, str, str]], ...] = (
    (
        r"^Could not extract specialized integer|TruncToInt|^Could not guard.* z?u?f\d+ \(",
        (
            "it makes a Python number of a tensor's value",
            "numbers that follow from shapes and constants",
            "use the tensor itself: x * n, x[n], torch.arange(size) < n",
        ),
    ),
    (r"data-dependent|[Uu]nbacked|u\d+ ", _VALUES),
    (
        r"^We found a fake tensor in the exported program constant's list",
        (
            "it gives a weight another value when it is called",
            "weights that stay",
            "leave `weight.data = ...` out of forward: set the weight before",
        ),
    ),
    (
        r"\.numpy\(\)|__array__|numpy",
        (
            "it turns a tensor into a NumPy array",
            "operators of PyTorch",
            "write that step in torch, or do it before the model or behind it",
        ),
    ),
    (
        r"does not require grad|grad_fn|_unwrap_for_grad",
        (
            "it computes gradients",
            "a model for inference",
            "pass the gradient as an input, or write it out",
        ),
    ),
    (
        r"in output, which is not a known type|Unsupported output type",
        (
            "it returns something other than tensors and constants",
            "tensors, in tuples, lists, dictionaries or registered classes",
            "return the tensors",
        ),
    ),
    (
        r"data pointer|storage",
        ("it reads the memory of a tensor directly", "operators of PyTorch", "use operators"),
    ),
    (
        r"[Nn]ested|jagged",
        ("it makes a nested tensor", "dense tensors", "pad them, and use a mask"),
    ),
    (
        r"^There was no fake impl|no fake impl|register_fake|FakeTensor|fake_impl",
        (
            "it calls an operator that says no shape of its result",
            "operators that PyTorch can trace",
            "give the operator a function with torch.library.register_fake",
        ),
    ),
)
"""What messages of the exporter mean: a pattern, and what to say: found, expected, to do."""

_DECIDED = (
    "Constraints violated",
    "specialized it to be a constant",
    "Expected op to be '=='",
    "Dim with inconsistent",
)
"""What the exporter says where the model asks how large an open extent is.

The last one it says of its own suggestion, which has no size."""

_PLAIN = (
    (r"L\['(\w+)'\](?:\[[^\]]*\])*\.size\(\)\[(\d+)\]", r"axis \2 of '\1'"),
    (r", max=oo| and [^,()]*? <= (?:IntInfinity\(\)|int_oo|oo)", ""),
    (
        r"You marked (\w+) as dynamic but your code specialized it to be a constant \((\d+)\)",
        r"\1 becomes \2",
    ),
    (r"\btorch\.sym_|\btorch\._sym_|\bmath\.(?!trunc)", ""),
    (r"\bmath\.trunc\b", "int"),
)
"""What PyTorch calls numbers of extents, and what Python does."""

_ASKED = re.compile(
    r"Not all values of (\w+) = (axis \d+ of '\w+') in the specified range.*?"
    r" satisfy the (?:generated )?guard (.*)"
)
"""What PyTorch says where a condition on one extent does not hold in its range."""

_LONG = 40
"""Characters of a condition that is still told."""

_FIX = re.compile(r"\w+ = (?:\d+|Dim\('\w+'(?:, m(?:in|ax)=\d+)*\)|\d+\*\w+(?: [+-] \d+)?)")
"""A suggestion that can be followed."""

_MULTIPLE = re.compile(r"\w+ = \d+\*\w+(?: [+-] \d+)?")
"""One of multiples."""

_TRUNCATED = re.compile(r"\bint\(.*\bfloat\(.*\) == \d+")
"""What Python's ``int`` makes of a fraction of an extent: the number that it is in the example."""

_ANY = (
    "a model that torch.export can trace",
    "run the model on the example inputs first, or pass your own ExportedProgram",
)


def not_traced(module: nn.Module, call: Call, error: Exception) -> InputError:
    """Return what to tell of a ``call`` that PyTorch's exporter refuses with ``error``.

    ``module`` is run on it first: what does not run cannot be traced.
    """
    where = f"model '{type(module).__name__}'"
    text = str(error)
    if any(reason in text for reason in _DECIDED):
        return _closed(where, text)
    failure = failure_of(module, call)
    if failure is not None:
        return _does_not_run(module, call, failure)
    operator = _operator(error)
    if operator:
        return InputError(
            where,
            f"operator '{operator}' cannot be traced: values of a tensor decide what it gives",
            "operators whose results have a shape that follows from shapes",
            "do that step before the model or behind it",
        )
    place = aside(_line(error))
    known = meaning(error)
    if known is not None:
        found, expected, todo = known
        found = f"torch.export cannot trace it: {found}{place}"
        return InputError(where, found, expected, todo)
    reason = aside(said(error)) or place
    return InputError(where, f"torch.export cannot trace it{reason}", *_ANY)


def suggests_multiples(error: Exception) -> bool:
    """Whether PyTorch says of which number an extent has to be a multiple: ``n = 8*_n``."""
    return any(_MULTIPLE.fullmatch(line.strip()) for line in str(error).splitlines())


def meaning(error: BaseException) -> tuple[str, str, str] | None:
    """Return what an error of PyTorch's exporter means: found, expected, what to do."""
    text = str(error)
    return next((told for pattern, told in _KNOWN if re.search(pattern, text)), None)


def failure_of(module: nn.Module, call: Call) -> Exception | None:
    """Return what the model itself raises when it is called."""
    try:
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, call)
        with torch.enable_grad():  # whoever computes gradients is told of that
            kept = {id(t): t.detach() for t in all_tensors(module) if not t.is_leaf}
            copy.deepcopy(module, kept)(*args, **kwargs)  # as it is, PyTorch copies no such tensor
    except Exception as error:
        return error
    return None


def _does_not_run(module: nn.Module, call: Call, failure: Exception) -> InputError:
    tensors = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)]
    held = {p.dtype for p in module.parameters() if p.is_floating_point()}
    other = [t.dtype for t in tensors if t.is_floating_point() and t.dtype not in held]
    if len(held) == 1 and other:
        (wanted,) = (str(dtype).removeprefix("torch.") for dtype in held)
        found = f"are {str(other[0]).removeprefix('torch.')}, and the model's weights {wanted}"
        return InputError(WHERE, found, "one type", f"pass x.to(torch.{wanted})")
    return InputError(
        WHERE,
        f"the model does not run on them{aside(said(failure))}",
        "inputs that the model takes",
        "call the model on them first",
    )


def _operator(error: BaseException) -> str:
    """Return the operator whose result has no shape before values are known."""
    kinds = (
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.DataDependentOutputException,
        fake_tensor.UnsupportedOperatorException,
    )
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, kinds):
        cause = cause.__cause__ or cause.__context__
    return operator_name(cause.func) if cause is not None else ""


def _line(error: BaseException) -> str:
    """Return the model's own line that was being traced, ``""`` if it cannot be told."""
    frames = list(_frames(error))
    return f"in `{frames[-1]}`" if frames else ""


def _frames(error: BaseException) -> Iterator[str]:
    """Yield the lines of files that are neither PyTorch's nor ours, from the outermost."""
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if not any(own in path.parents for own in _OURS) and "site-packages" not in path.parts:
            line = linecache.getline(frame.filename, frame.lineno or 0).strip()
            if line:
                yield line if len(line) <= 80 else line[:77] + "..."


def _closed(where: str, text: str) -> InputError:
    """Return what to tell of extents that cannot stay open."""
    for pattern, plain in _PLAIN:
        text = re.sub(pattern, plain, text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [line.removeprefix("- ").split(". ")[0] for line in lines if line.startswith("- ")]
    told = [reason for reason in map(_reason, reasons) if reason]
    start = lines.index("Suggested fixes:") + 1 if "Suggested fixes:" in lines else len(lines)
    fixes = [line for line in lines[start:] if _FIX.fullmatch(line)]
    todo = f"pass {'; '.join(fixes)}" if fixes else "raise `min` or lower `max` of torch.export.Dim"
    if any(_TRUNCATED.search(reason) for reason in reasons):  # no range would help
        todo = "compute sizes as quotients of whole numbers: n // 2, int(n * 0.25)"
    return InputError(
        where,
        f"cannot leave these extents open{aside('; '.join(told[:1]))}",
        "extents that may be all that their range says",
        todo,
    )


def _reason(text: str) -> str:
    """Return what PyTorch says of an extent in short, with the name of the extent."""
    known = _ASKED.fullmatch(text)
    if known is None:
        return "" if "(" in text and "becomes" not in text else text
    name, axis, condition = known.groups()
    condition = condition.replace(axis, name).rstrip(".")
    if len(condition) > _LONG:
        return f"{axis}, '{name}', decides what the model does"
    return f"the model needs {condition}, where '{name}' is {axis}"
