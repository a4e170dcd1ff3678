import copy as standard
import dataclasses
import gc
import multiprocessing
import pickle
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.artifact.programs import linear, linear_reference
from tests.runtime import fresh, manifests
from tvm_sparse_runtime import RuntimeArtifactError, SparseRuntimeError, library, load
from tvm_sparse_runtime.manifest import FILE_NAME
from tvm_sparse_runtime.parsing import parse

X = np.arange(192, dtype="float32").reshape(3, 64) % 11


def zeros():
    return {name: np.zeros_like(array) for name, array in linear().weights.items()}


@pytest.fixture
def copy(linear_artifact, tmp_path):
    return shutil.copytree(linear_artifact, tmp_path / "copy.tvms")


def edit(directory, change):
    """Rewrite the manifest of ``directory`` as its owner could."""
    path = directory / FILE_NAME
    path.write_bytes(change(parse(path.read_bytes())).to_bytes())


def test_in_this_process(linear_artifact):
    loaded = load(linear_artifact)
    for found, expected in zip(loaded(X), linear_reference(X), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-3)
    assert loaded.manifest.decisions == ({"layer": "fc", "chosen": "dense"},)
    assert repr(loaded).endswith(
        "x: float32[batch, 64] -> y: float32[batch, 32], z: float32[batch, 32])"
    )
    np.testing.assert_array_equal(load(str(linear_artifact), verify=False)(X)[0], loaded(X)[0])


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


EDITS = {
    "inputs": lambda specs: specs[1:],
    "outputs": lambda specs: (dataclasses.replace(specs[0], dtype="float64"), *specs[1:]),
    "weights": lambda table: (dataclasses.replace(table[0], shape=(32, 64)), *table[1:]),
    "bounds": lambda bounds: {"batch": (0, 1 << 40)},
    "target": lambda target: dataclasses.replace(target, cpu_features=()),
    "versions": lambda versions: {**versions, "tvm_sparse": "9"},
}


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("field", EDITS)
def test_manifest_that_is_not_the_librarys_own(copy, field, verify):
    """None of these may reach the code, which would fail at a call or give wrong numbers."""

    def change(manifest):
        return dataclasses.replace(manifest, **{field: EDITS[field](getattr(manifest, field))})

    edit(copy, change)
    with pytest.raises(RuntimeArtifactError, match="made for another manifest"):
        load(copy, verify=verify)


def test_threads_and_decisions_may_be_edited(copy):
    edit(copy, lambda manifest: dataclasses.replace(manifest, threads=1, decisions=()))
    assert load(copy).manifest.threads == 1


def test_exported_again_over_an_open_artifact(tmp_path):
    """The dynamic loader would give the old library to a second load from the same path."""
    place, program = tmp_path / "again.tvms", linear()
    program.export(place)
    old = load(place)
    before = old(X)[1]
    program.export(place, weights=zeros(), force=True)
    assert not load(place)(X)[1].any()
    np.testing.assert_array_equal(old(X)[1], before)


def test_a_file_that_is_swapped_after_the_check_is_not_run(copy, tmp_path, monkeypatch):
    """What was checked is opened, whatever lies under its name by then."""
    other = linear().export(tmp_path / "other", weights=zeros())
    path, choose = next(copy.glob("*.so")), library.choose_threads

    def swap(*arguments):
        (tmp_path / "other" / other.library).replace(path)
        choose(*arguments)

    monkeypatch.setattr(library, "choose_threads", swap)
    np.testing.assert_allclose(load(copy)(X)[1], linear_reference(X)[1], atol=1e-3)
    with pytest.raises(RuntimeArtifactError, match="SHA-256"):
        load(copy)


TRUNCATED = """
import os, pathlib, sys
import numpy as np
import tvm_sparse_runtime as rt
(path,), x = pathlib.Path(sys.argv[1]).glob("*.so"), np.ones((3, 64), "float32")
library = rt.load(sys.argv[1], copy=sys.argv[2] == "copy", threads=1)
before = library(x)[1]
os.truncate(path, 0)
print((library(x)[1] == before).all())
"""


@pytest.mark.grid
@pytest.mark.parametrize("how", ["copy", "mapped"])
def test_file_truncated_while_it_is_in_use(copy, how):
    """Of a mapped file that ends the process, as the documentation says."""
    done = fresh.run(TRUNCATED, copy, how)
    if how == "copy":
        assert done.stdout == "True\n", done.stderr
    else:
        assert done.returncode == -signal.SIGBUS


def test_no_descriptor_stays_open(linear_artifact):
    load(linear_artifact)
    before = {path.name for path in Path("/proc/self/fd").iterdir()}
    for copied in (True, False):
        load(linear_artifact, copy=copied)
    assert {path.name for path in Path("/proc/self/fd").iterdir()} == before


def test_without_proc_the_path_is_opened(linear_artifact, monkeypatch):
    monkeypatch.setattr(
        library.verification.files, "loadable_name", lambda _, path: str(path.resolve())
    )
    np.testing.assert_allclose(load(linear_artifact)(X)[1], linear_reference(X)[1], atol=1e-3)


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


CLONES = """
import sys, threading
import numpy as np
import tvm_sparse_runtime as rt
from tvm_sparse_runtime import engine

library = rt.load(sys.argv[1], threads=2)
x = np.arange(192, dtype="float32").reshape(3, 64)
wanted = library(x)
used = []

def work(clone):
    for _ in range(200):
        for a, b in zip(clone(x), wanted):
            assert np.array_equal(a, b)
    used.append(engine.function("tvm_sparse.threads_used")())

clones = [library.clone(threads=n) for n in (1, 2)]
threads = [threading.Thread(target=work, args=(clone,)) for clone in clones]
for thread in threads: thread.start()
for thread in threads: thread.join()
single = clones[0]
single(x), used.append(engine.function("tvm_sparse.threads_used")())
library(x), used.append(engine.function("tvm_sparse.threads_used")())
print(sorted(used[:2]), used[2:])
assert clones[0].path == library.path
assert clones[0]._weights[0].data_ptr() == library._weights[0].data_ptr()
"""


def test_clones_have_threads_of_their_own(linear_artifact):
    done = fresh.run(CLONES, linear_artifact)
    assert (done.stdout, done.stderr) == ("[1, 2] [1, 2]\n", "")


SCALING = """
import hashlib, sys, threading, time
import numpy as np
import tvm_sparse_runtime as rt

library = rt.load(sys.argv[1], threads=1)
clones = [library.clone(), library.clone()]
x, data = np.ones((4096, 64), "float32"), bytes(10_000_000)

def gain(*work):
    "How much more is done by both at a time than by one alone."
    begin = time.perf_counter()
    work[0]()
    alone, begin = time.perf_counter() - begin, time.perf_counter()
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return 2 * alone / (time.perf_counter() - begin)

calls = [lambda clone=clone: [clone(x) for _ in range(20)] for clone in clones]
hashes = [lambda: [hashlib.sha256(data).digest() for _ in range(5)]] * 2
gains = [(gain(*calls), gain(*hashes)) for _ in range(15)]
print(*(max(column) for column in zip(*gains)))
"""


@pytest.mark.slow
def test_two_clones_use_two_cores(linear_artifact):
    """The best of some rounds, beside work that is known to run side by side."""
    clones, hashing = map(float, fresh.run(SCALING, linear_artifact).stdout.split())
    if hashing < 1.8:
        pytest.skip(f"this machine has {hashing:.2f} cores left")
    assert clones > 1.6


def test_a_clone_needs_a_thread(linear_artifact):
    with pytest.raises(SparseRuntimeError, match="threads: 0; expected 1 to 4096"):
        load(linear_artifact).clone(threads=0)


def test_copies_and_pickles_compute_the_same(linear_artifact):
    loaded = load(linear_artifact)
    for other in (
        standard.copy(loaded),
        standard.deepcopy(loaded),
        reborn(loaded),
        reborn(reborn(loaded)),
    ):
        assert other.manifest == loaded.manifest
        for found, wanted in zip(other(X), loaded(X), strict=True):
            np.testing.assert_array_equal(found, wanted)


def reborn(value):
    return pickle.loads(pickle.dumps(value))


def test_what_was_unpickled_leaves_no_files(linear_artifact):
    other = reborn(load(linear_artifact))
    place = other.path
    assert place.exists()
    other(X)
    del other
    gc.collect()
    assert not place.exists()


def test_another_process_runs_it(linear_artifact):
    loaded = load(linear_artifact)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        outputs = pool.submit(loaded, X).result(timeout=120)
    for found, wanted in zip(outputs, loaded(X), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_pickle_needs_the_artifact(copy):
    loaded = load(copy)
    edit(copy, lambda manifest: dataclasses.replace(manifest, threads=3))
    with pytest.raises(RuntimeArtifactError, match="another artifact is there"):
        pickle.dumps(loaded)
    shutil.rmtree(copy)
    with pytest.raises(RuntimeArtifactError, match="there is no such directory"):
        pickle.dumps(loaded)


def test_a_pickle_with_damaged_files_is_refused(linear_artifact):
    content = pickle.dumps(load(linear_artifact))
    code = bytearray(content)
    code[len(code) // 2] ^= 1
    with pytest.raises((RuntimeArtifactError, pickle.UnpicklingError)):
        pickle.loads(bytes(code))
