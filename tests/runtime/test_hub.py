"""Artifacts in repositories of the Hub, by its own client and a stand-in for its servers."""

import shutil

import numpy as np
import pytest

import tvm_sparse_runtime as runtime
from tests.runtime.hub_server import TOKEN, asked, served
from tvm_sparse_runtime import RuntimeArtifactError, SparseRuntimeError
from tvm_sparse_runtime.hub import pull, push
from tvm_sparse_runtime.hub_card import CARD, MADE

constants = pytest.importorskip("huggingface_hub.constants")
REPOSITORY = "us/pruned"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Return a hub that the client asks, with caches of its own."""
    with served() as hub:
        asked(hub, tmp_path / "cache", monkeypatch)
        monkeypatch.delenv("HF_TOKEN")
        yield hub


def pushed(artifact, **options):
    return push(artifact, REPOSITORY, token=TOKEN, **options)


@pytest.fixture
def artifact(linear_artifact, tmp_path):
    return shutil.copytree(linear_artifact, tmp_path / "model.tvms")


def test_what_is_pulled_runs_as_what_was_pushed(hub, artifact, tmp_path):
    url = pushed(artifact, license="apache-2.0", base_model="them/dense", message="first")
    assert url.startswith(f"{hub.url}/{REPOSITORY}/commit/")
    assert hub.messages == ["first"]
    fetched = pull(REPOSITORY, tmp_path / "models")
    assert fetched == tmp_path / "models" / "model.tvms"
    assert {p.name: p.read_bytes() for p in fetched.iterdir()} == {
        p.name: p.read_bytes() for p in artifact.iterdir()
    }
    x = np.ones((2, 64), np.float32)
    assert np.array_equal(runtime.load(fetched)(x), runtime.load(artifact)(x))


def test_the_card_says_what_the_artifact_is(hub, artifact):
    pushed(artifact, license="apache-2.0", base_model="them/o'dense")
    text = hub.files(REPOSITORY)[CARD].decode()
    manifest = runtime.load(artifact).manifest
    head, said = text.split("---\n")[1:]
    assert "library_name: tvm-sparse\n" in head and "license: 'apache-2.0'\n" in head
    assert "base_model: 'them/o''dense'\n" in head
    assert f"- '{manifest.target.machine}'\n" in head
    assert said.startswith(MADE) and f'pull("{REPOSITORY}", "models")' in said
    assert all(f"`{spec}`" in said for spec in (*manifest.inputs, *manifest.outputs))


def test_another_artifact_replaces_the_first(hub, artifact, echo_artifact, tmp_path):
    pushed(artifact)
    pull(REPOSITORY, tmp_path / "models")
    shutil.rmtree(artifact)
    shutil.copytree(echo_artifact, artifact)
    pushed(artifact)
    there = {path for path in hub.files(REPOSITORY) if "/" in path}
    assert there == {f"model.tvms/{path.name}" for path in artifact.iterdir()}
    again = pull(REPOSITORY, tmp_path / "models")
    assert {p.name for p in again.iterdir()} == {p.name for p in artifact.iterdir()}
    assert runtime.load(again).manifest == runtime.load(artifact).manifest


def test_a_commit_can_be_asked_for(hub, artifact, echo_artifact, tmp_path):
    first = pushed(artifact).rpartition("/")[2]
    pushed(echo_artifact)
    fetched = pull(REPOSITORY, tmp_path / "first", revision=first)
    assert runtime.load(fetched).manifest == runtime.load(artifact).manifest


def test_what_is_there_is_not_fetched_again(hub, artifact, tmp_path):
    pushed(artifact)
    pull(REPOSITORY, tmp_path / "models")
    assert hub.sent
    hub.sent.clear()
    pull(REPOSITORY, tmp_path / "models")
    assert not hub.sent


def test_a_card_that_somebody_wrote_is_kept(hub, artifact):
    pushed(artifact)
    hub.files(REPOSITORY)[CARD] = b"# Mine\n"
    pushed(artifact)
    assert hub.files(REPOSITORY)[CARD] == b"# Mine\n"


def test_a_damaged_artifact_is_not_pushed(hub, artifact):
    library = next(artifact.glob("*.so"))
    content = bytearray(library.read_bytes())
    content[-1] ^= 1
    library.write_bytes(content)
    with pytest.raises(RuntimeArtifactError, match="SHA-256"):
        pushed(artifact)
    assert not hub.repositories


def test_a_damaged_artifact_is_not_returned(hub, artifact, tmp_path):
    pushed(artifact)
    name = next(path for path in hub.files(REPOSITORY) if path.endswith(".so"))
    hub.files(REPOSITORY)[name] = hub.files(REPOSITORY)[name][:-1] + b"?"
    with pytest.raises(RuntimeArtifactError, match="SHA-256"):
        pull(REPOSITORY, tmp_path / "models")


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a.txt": b""}, "holds no artifact"),
        ({"manifest.json": b"{}"}, "holds no artifact"),
        ({"a/manifest.json": b"{}", "b/manifest.json": b"{}"}, "holds 'a', 'b'"),
    ],
)
def test_a_repository_without_one_artifact(hub, files, found, tmp_path):
    hub.repositories[REPOSITORY] = [files]
    with pytest.raises(SparseRuntimeError, match=found):
        pull(REPOSITORY, tmp_path)
    assert not [*tmp_path.glob("*.json")]


@pytest.mark.parametrize("token", [None, "hf_theirs"])
def test_who_may_not_write_is_told(hub, artifact, token):
    with pytest.raises(SparseRuntimeError, match=r"us/pruned: .*401") as caught:
        push(artifact, REPOSITORY, token=token)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("repository", "options", "expected"),
    [
        ("us/none", {}, "a repository that there is"),
        (REPOSITORY, {"revision": "none"}, "a branch, tag or commit"),
        ("a b/c", {}, "owner/name"),
    ],
)
def test_what_is_not_there_is_told(hub, artifact, repository, options, expected, tmp_path):
    pushed(artifact)
    with pytest.raises(SparseRuntimeError, match=expected) as caught:
        pull(repository, tmp_path / "models", **options)
    assert "\n" not in str(caught.value)


def test_no_network_is_told(monkeypatch, artifact, tmp_path):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SparseRuntimeError, match="cannot be reached"):
        pull(REPOSITORY, tmp_path)
