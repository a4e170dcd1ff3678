"""No message speaks of what its reader cannot know: names inside PyTorch and TVM, their files."""

from __future__ import annotations

import re

import pytest

import tvm_sparse as ts
from tests.frontends.refused import MODELS
from tvm_sparse.base.words import aside, said

INTERNAL = re.compile(
    r"TORCH_|TORCHDYNAMO|torch\._|aten[.:]|prims\.|\b(?:z?uf?|s)\d+\b|\b(?:Eq|Ne|Mod)\(|unhinted"
    r"|[Gg]uard|\bSym(?:Int|Float|Bool)|FakeTensor|FunctionalTensor|tensor subclass|pytree|proxy"
    r"|higher_order|placeholder|\w\.(?:py|cc|cpp|h)\b|\bline \d+|0x[0-9a-f]+|site-packages|/\w+/\w+"
    r"|c10::|Traceback|tlparse|draft_export|https?:|\b[RT]\.\w|\b[Rr]elax\b|\btir\b|Check failed"
    r"|<class|L\['|\.size\(\)|_local_scalar|num_users|Argument\b|\.default\b"
)


@pytest.mark.grid
@pytest.mark.parametrize("name", MODELS)
def test_refused_models_are_told_of_in_a_users_words(name, capfd):
    model, inputs, shapes = MODELS[name]
    with pytest.raises(ts.SparseError) as caught:
        ts.compile(
            model().eval(),
            inputs,
            dynamic_shapes=shapes,
            config=ts.Config(measure=False, cache=False, tuned=False),
        )
    error, text = caught.value, str(caught.value)
    assert not INTERNAL.findall(text), text
    assert error.where and error.found and error.expected, text
    assert "\n" not in text and len(text) < 600
    assert "warn" not in capfd.readouterr().err.lower()


def test_a_line_of_the_model_is_shown_where_it_decides():
    with pytest.raises(ts.InputError, match=r"\(in `while x\.abs\(\)\.max\(\) > 1:`\)"):
        ts.load(MODELS["loop"][0](), MODELS["loop"][1])


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("mat1 and mat2 shapes cannot be multiplied (1x5 and 4x4)\nmore", None),
        ("There are too few. For more information see https://example.org", "There are too few"),
        ("Could not guard on Eq(u0, 1) (unhinted: Eq(u0, 1))", ""),
        ("input_type of R.Tensor((2,)) is wrong", ""),
        ("raised in /a/b/importer.py", ""),
        ("", ""),
    ],
)
def test_what_a_library_says_is_cut_to_what_a_user_understands(message, told):
    found = said(RuntimeError(message))
    assert found == (message.splitlines()[0] if told is None else told)
    assert aside("") == "" and aside("x") == " (x)"
