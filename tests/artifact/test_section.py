import hashlib
import platform
import subprocess
import sys

import numpy as np
import pytest
from tvm.support import cc

from tvm_sparse.artifact import section
from tvm_sparse.artifact.section import WeightSection
from tvm_sparse.errors import ArtifactError
from tvm_sparse_runtime.manifest import WEIGHTS_SYMBOL

LARGE = platform.machine() == "x86_64"
"""Whether this machine knows large sections."""
READ = f"""
import ctypes, hashlib, sys
library = ctypes.CDLL(sys.argv[1])
first, end = (ctypes.addressof(ctypes.c_uint8.in_dll(library, "{WEIGHTS_SYMBOL}" + s))
              for s in ("", "_end"))
print(first % 4096, end - first, hashlib.sha256(ctypes.string_at(first, end - first)).hexdigest())
"""


def link(objects, library):
    subprocess.run([cc.get_cc(), "-shared", "-o", library, *objects], check=True)
    return library


@pytest.mark.grid
@pytest.mark.parametrize("size", [0, 1, 4096, 8192, 8193, 3 * 8192 + 77])
@pytest.mark.parametrize(("piece", "large"), [(100, False), (8192, False), (20_000, LARGE)])
def test_many_parts_become_one_section(tmp_path, monkeypatch, size, piece, large):
    monkeypatch.setattr(section, "_PART_BYTES", 8192)
    content = np.random.default_rng(size).bytes(size)
    stream = (memoryview(content[i : i + piece]) for i in range(0, size, piece))
    made = WeightSection(stream, tmp_path, cc.get_cc(), large=large)
    assert len(made.objects) == max(1, -(-size // 8192)) + 1
    assert not (tmp_path / "weights.bin").exists()
    library = link(made.objects, tmp_path / "w.so")
    made.check(library)
    done = subprocess.run(
        [sys.executable, "-c", READ, library], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", str(size), hashlib.sha256(content).hexdigest()]


def test_linker_that_changes_the_order_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(section, "_PART_BYTES", 4096)
    content = memoryview(np.random.default_rng(0).bytes(8192))
    made = WeightSection([content], tmp_path, cc.get_cc())
    first, second, end = made.objects
    with pytest.raises(ArtifactError, match="changed the weight section"):
        made.check(link([second, first, end], tmp_path / "w.so"))
    with pytest.raises(ArtifactError, match="changed the weight section"):
        made.check(link([first, end], tmp_path / "short.so"))


def test_linker_that_drops_the_section_is_noticed(tmp_path):
    made = WeightSection([memoryview(b"1234")], tmp_path, cc.get_cc())
    (tmp_path / "empty.c").write_text("int unrelated;\n")
    with pytest.raises(ArtifactError, match="dropped the section"):
        made.check(link([tmp_path / "empty.c"], tmp_path / "none.so"))


def test_compiler_that_fails(tmp_path):
    with pytest.raises(ArtifactError, match="cannot assemble the weights"):
        WeightSection([memoryview(b"1234")], tmp_path, "false")
