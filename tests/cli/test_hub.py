"""``tvm-sparse push`` and ``pull``: what they ask for, and how they say what went wrong."""

import json
from pathlib import Path

import tvm_sparse_runtime.hub as hub
from tvm_sparse_runtime import SparseRuntimeError


def test_push_asks_for_what_the_options_say(call, here, monkeypatch):
    asked = []
    monkeypatch.setattr(hub, "push", lambda *args, **named: asked.append((args, named)) or "url")
    options = ("--private", "--license", "mit", "--base-model", "a/b", "-m", "first")
    done = call("push", "model.tvms", "us/pruned", *options, "--revision", "x", "--json")
    assert json.loads(done.stdout) == {"commit": "url"}
    named = {"license": "mit", "base_model": "a/b", "message": "first", "revision": "x"}
    assert asked == [((Path("model.tvms"), "us/pruned"), {"private": True, **named})]


def test_pull_says_where_the_artifact_is(call, here, monkeypatch):
    def pulled(repository, directory, *, revision):
        assert (repository, revision) == ("us/pruned", "v1")
        return directory / "model.tvms"

    monkeypatch.setattr(hub, "pull", pulled)
    done = call("pull", "us/pruned", "--revision", "v1", "-o", "models")
    assert done.stdout == "wrote models/model.tvms\n"


def test_what_goes_wrong_is_one_line(call, here, monkeypatch):
    def refused(*_, **__):
        raise SparseRuntimeError("us/pruned", "holds no artifact", "one artifact")

    monkeypatch.setattr(hub, "pull", refused)
    done = call("pull", "us/pruned", status=1)
    assert done.stderr == "error: us/pruned: holds no artifact; expected one artifact.\n"
