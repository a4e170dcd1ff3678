"""The Python of docs/extending.md runs as it stands."""

import re
from pathlib import Path

import pytest
import torch

from tests.extension.striped import STRIPED
from tests.extension.test_extension import network
from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.base.targets import parse_target
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.machine.engine.registry import ENGINES, engine_of
from tvm_sparse.machine.registry import MACHINES, machine_of
from tvm_sparse.registry import unregister

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SNIPPET = re.compile(r'--8<-- "(.*)"\n')


@pytest.fixture
def blocks():
    """The page's blocks; what they add to the tables is taken out again."""
    before = set(ENGINES)
    yield BLOCK.findall((ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))
    unregister("striped")
    MACHINES.remove("toy")
    for pair in set(ENGINES) - before:
        del ENGINES[pair]


def test_the_page(blocks):
    file, kind, machine = blocks
    assert (ROOT / SNIPPET.fullmatch(file)[1]).samefile(ROOT / "tests/extension/striped.py")
    x = torch.randint(-4, 5, (3, 64)).float()
    names = {"STRIPED": STRIPED, "model": network(8), "x": x}
    exec(kind.replace("check_kind(", "callable("), names)  # test_extension.py calls it
    assert torch.equal(names["library"](x), names["model"](x))
    target = parse_target("cpu").target
    exec(machine, names)
    assert machine_of(target).name == "toy"
    assert engine_of(FLOAT32, target) is not None
    del ENGINES[FLOAT32, "toy"]
    with pytest.raises(UnsupportedError, match="no engine"):
        engine_of(FLOAT32, target)
