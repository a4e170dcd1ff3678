import dataclasses
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.artifact.programs import linear, linear_reference
from tests.runtime import fresh, manifests
from tvm_sparse_runtime import RuntimeArtifactError, SparseRuntimeError, TensorSpec, load
from tvm_sparse_runtime.manifest import FILE_NAME
from tvm_sparse_runtime.parsing import parse

X = np.arange(192, dtype="float32").reshape(3, 64) % 11


@pytest.fixture
def copy(linear_artifact, tmp_path):
    return shutil.copytree(linear_artifact, tmp_path / "copy.tvms")


def edit(directory, change):
    """Rewrite the manifest of ``directory`` as its owner could."""
    path = directory / FILE_NAME
    path.write_bytes(change(parse(path.read_bytes())).to_bytes())


def test_in_this_process(linear_artifact):
    library = load(linear_artifact)
    for found, expected in zip(library(X), linear_reference(X), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-3)
    assert library.manifest.decisions == ({"layer": "fc", "chosen": "dense"},)
    assert repr(library).endswith(
        "x: float32[batch, 64] -> y: float32[batch, 32], z: float32[batch, 32])"
    )
    np.testing.assert_array_equal(load(str(linear_artifact), verify=False)(X)[0], library(X)[0])


def test_fresh_process_has_neither_torch_nor_compiler(linear_artifact, tmp_path):
    np.save(tmp_path / "x.npy", X)
    done = fresh.run(
        "import pathlib, sys\n"
        "import numpy as np\n"
        "import tvm_sparse_runtime as rt\n"
        "assert not any(name.startswith('tvm_ffi') for name in sys.modules)\n"
        "y, z = rt.load(sys.argv[1])(np.load(sys.argv[2] + '/x.npy'))\n"
        "np.save(sys.argv[2] + '/z.npy', z)\n"
        "assert not {'torch', 'tvm', 'tvm_sparse'} & sys.modules.keys()\n"
        "assert 'libtvm_compiler' not in pathlib.Path('/proc/self/maps').read_text()\n",
        linear_artifact,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    z = np.load(tmp_path / "z.npy")
    np.testing.assert_allclose(z, linear_reference(X)[1], atol=1e-3)


DAMAGES = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "flipped": lambda data: data[:999] + bytes([data[999] ^ 1]) + data[1000:],
    "foreign": lambda data: b"x" * len(data),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", ["library", FILE_NAME])
def test_damage_is_found_before_anything_is_opened(copy, damage, name, monkeypatch):
    path = next(copy.glob("*.so")) if name == "library" else copy / name
    path.write_bytes(damage(path.read_bytes()))
    monkeypatch.setattr("tvm_sparse_runtime.engine.ffi", None)
    with pytest.raises(RuntimeArtifactError, match=path.name.replace(".", r"\.")):
        load(copy)


def test_library_that_is_none(tmp_path):
    with pytest.raises(RuntimeArtifactError, match="cannot be opened"):
        load(manifests.write(tmp_path / "a"))


def test_weights_beyond_the_section(copy):
    def grow(manifest):
        first, second = manifest.weights
        return dataclasses.replace(
            manifest, weights=(first, dataclasses.replace(second, shape=(1 << 20,)))
        )

    edit(copy, grow)
    with pytest.raises(RuntimeArtifactError, match="weight b: ends at 4202496; expected a section"):
        load(copy)


@pytest.mark.parametrize("field", ["inputs", "weights"])
def test_table_that_does_not_fit_the_program(copy, field):
    def shorten(manifest):
        return dataclasses.replace(manifest, **{field: getattr(manifest, field)[1:]})

    edit(copy, shorten)
    with pytest.raises(SparseRuntimeError, match="main: takes 3 tensors"):
        load(copy)


def test_shape_that_does_not_fit_the_program(copy):
    specs = (TensorSpec("x", ("batch", 63), "float32"),)
    edit(copy, lambda manifest: dataclasses.replace(manifest, inputs=specs))
    with pytest.raises(RuntimeError, match="mismatch"):
        load(copy)(np.zeros((1, 63), "float32"))


def test_program_without_weights(tmp_path, echo_artifact):
    library = load(echo_artifact)
    edit_target = shutil.copytree(echo_artifact, tmp_path / "none")
    edit(edit_target, lambda manifest: dataclasses.replace(manifest, weights=()))
    with pytest.raises(SparseRuntimeError, match="takes 2 tensors"):
        load(edit_target)
    assert library(np.ones((4, 16), "int32"))[0].sum() == 64


def test_exported_again_over_an_open_artifact(tmp_path):
    """The dynamic loader would give the old library to a second load from the same path."""
    place, program = tmp_path / "again.tvms", linear()
    program.export(place)
    old = load(place)
    before = old(X)[1]
    zeros = {name: np.zeros_like(array) for name, array in program.weights.items()}
    program.export(place, weights=zeros, force=True)
    assert not load(place)(X)[1].any()
    np.testing.assert_array_equal(old(X)[1], before)


SHARE = """
import pathlib, re, sys
import numpy as np
import tvm_sparse_runtime as rt
library = rt.load(sys.argv[1])
library(np.ones((4, 16), "int32"))
address = library._weights[0].data_ptr()
print("ready", flush=True)
sys.stdin.readline()
lines = iter(pathlib.Path("/proc/self/smaps").read_text().splitlines())
for line in lines:
    bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\\S+)", line)
    if bounds and int(bounds[1], 16) <= address < int(bounds[2], 16):
        print(bounds[3])
        for line in lines:
            print(line)
            if line.startswith("VmFlags"):
                break
"""


def test_two_processes_share_the_weights(echo_artifact):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SHARE, str(echo_artifact)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    assert [p.stdout.readline() for p in processes] == ["ready\n"] * 2
    out, _ = processes[0].communicate("\n", timeout=60)
    processes[1].communicate("\n", timeout=60)
    permissions, *lines = out.splitlines()
    sizes = {line.split(":")[0]: line.split()[1] for line in lines}
    assert permissions.startswith("r--p")
    assert int(sizes["Shared_Clean"]) > 0
    assert int(sizes["Private_Dirty"]) == int(sizes["Private_Clean"]) == 0
