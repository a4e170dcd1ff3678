import json
import platform
from pathlib import Path

import numpy as np
import pytest

from tests.artifact.programs import linear
from tests.runtime import fresh
from tests.runtime.manifests import verified_manifest
from tvm_sparse.artifact import required_cpu_features, section
from tvm_sparse.errors import ArtifactError, InputError
from tvm_sparse_runtime import load
from tvm_sparse_runtime.manifest import FILE_NAME

X = np.ones((2, 64), "float32")


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_what_lies_in_the_directory(linear_artifact):
    manifest = verified_manifest(linear_artifact)
    assert names(linear_artifact) == sorted([FILE_NAME, manifest.library])
    assert manifest.inputs == linear().inputs
    assert [w.name for w in manifest.weights] == ["w", "b"]
    assert manifest.target.machine == platform.machine()
    assert list(manifest.target.cpu_features) == required_cpu_features(linear().target)
    assert manifest.threads is None
    assert names(linear_artifact.parent) == [linear_artifact.name]


def test_returns_what_it_wrote(tmp_path):
    written = linear().export(tmp_path / "a", threads=1, decisions=[{"layer": "a", "us": 1.5}])
    assert written == verified_manifest(tmp_path / "a")
    assert written.threads == 1


@pytest.mark.parametrize("large_bytes", [1 << 30, 0])
def test_weights_in_many_parts(tmp_path, monkeypatch, linear_artifact, large_bytes):
    monkeypatch.setattr(section, "_PART_BYTES", 4096)
    monkeypatch.setattr(section, "LARGE_BYTES", large_bytes)
    linear().export(tmp_path / "parts")
    np.testing.assert_array_equal(load(tmp_path / "parts")(X)[1], load(linear_artifact)(X)[1])


def test_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    linear().export("here.tvms")
    assert load("here.tvms")(X)[0].shape == (2, 32)


def test_existing_artifact_only_by_force(tmp_path):
    place = tmp_path / "a"
    linear().export(place)
    with pytest.raises(ArtifactError, match="already"):
        linear().export(place, threads=1)
    assert verified_manifest(place).threads is None
    linear().export(place, threads=1, force=True)
    assert verified_manifest(place).threads == 1


@pytest.mark.parametrize("force", [True, False])
def test_other_things_are_never_replaced(tmp_path, force):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "directory")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    linear().export(tmp_path / "artifact")
    (tmp_path / "artifact" / "notes").write_text("mine")
    before = names(tmp_path)
    for name in before:
        with pytest.raises(ArtifactError, match=name):
            linear().export(tmp_path / name, force=force)
    assert names(tmp_path) == before
    assert (tmp_path / "directory" / "file").read_text() == "mine"


def test_empty_directory_is_fine(tmp_path):
    linear().export(tmp_path)
    assert len(names(tmp_path)) == 2


@pytest.mark.grid
@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"weights": {"w": np.full((64, 32), np.nan, "f4")}}, InputError, "weight w: nan"),
        ({"weights": {"w": np.zeros(3, "complex64")}}, InputError, "weight w: dtype complex64"),
        ({"decisions": [{"us": float("nan")}]}, ArtifactError, "manifest.json"),
        ({"decisions": [{"us": object()}]}, ArtifactError, "manifest.json"),
        ({"decisions": ["text"]}, ArtifactError, "manifest.json"),
        ({"threads": 0}, ArtifactError, "manifest.json"),
        ({"weights": {"": np.zeros(3, "f4")}}, ArtifactError, "manifest.json"),
    ],
    ids=range(7),
)
def test_nothing_is_left_of_what_cannot_be_written(tmp_path, change, kind, message):
    with pytest.raises(kind, match=message):
        linear().export(tmp_path / "a", **change)
    assert names(tmp_path) == []


def test_no_compiler(tmp_path, monkeypatch):
    for variable in ("CXX", "CC"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArtifactError, match=r"C\+\+ compiler: not found; .*set CXX"):
        linear().export(tmp_path / "a")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ArtifactError, match="no-such-compiler: not found"):
        linear().export(tmp_path / "a")
    assert names(tmp_path) == []


def test_linker_that_fails(tmp_path, monkeypatch):
    script = tmp_path / "cxx"
    script.write_text('#!/bin/sh\ncase "$*" in *-shared*) echo no linker >&2; exit 1;; esac\n')
    script.write_text(script.read_text() + 'exec g++ "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    with pytest.raises(ArtifactError, match="no linker"):
        linear().export(tmp_path / "a")
    assert names(tmp_path) == ["cxx"]


def test_parent_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot be written"):
        linear().export(tmp_path / "file" / "a")


KILLED = """
import os, pathlib, signal, sys
sys.path.insert(0, sys.argv[1])
from tests.artifact.programs import linear
from tvm_sparse.artifact import export as _, section, staging
from tvm_sparse.artifact.section import WeightSection
program, place = linear(), pathlib.Path(sys.argv[2])
program.export(place, threads=1)
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
points = [(section, "_assemble"), (WeightSection, "check"), (staging, "sync"),
          (staging, "_replace")]
for owner, name in points:
    child = os.fork()
    if child == 0:
        setattr(owner, name, die)
        program.export(place, force=True)
        os._exit(0)
    print(name, os.waitpid(child, 0)[1], flush=True)
"""


def test_killed_export_leaves_the_old_artifact(tmp_path):
    place = tmp_path / "a"
    root = Path(__file__).resolve().parents[2]
    done = fresh.run(KILLED, root, place)
    assert done.stdout.split() == ["_assemble", "9", "check", "9", "sync", "9", "_replace", "9"]
    assert verified_manifest(place).threads == 1
    assert load(place)(X)[0].shape == (2, 32)
    linear().export(place, force=True)
    assert names(tmp_path) == ["a"], "the next export cleans up"


def test_manifest_is_plain_json(linear_artifact):
    body = json.loads((linear_artifact / FILE_NAME).read_text())
    assert body["format_version"] == 2
    assert body["decisions"] == [{"layer": "fc", "chosen": "dense"}]


@pytest.mark.parametrize("place", ["/", "//", "/../..", "x\0y", "\udcff.tvms", "\udcff/a.tvms"])
def test_places_that_are_none(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArtifactError) as caught:
        linear().export(Path(place))
    assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == []
