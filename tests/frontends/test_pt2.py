""".pt2 files: sound ones are read, hostile ones are refused before anything in them runs."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.frontends.running import largest_difference
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.pt2 import load_pt2
from tvm_sparse.frontends.program.exported import from_exported

X = torch.randn(2, 3, 6)


class Small(nn.Module):
    """A recurrent layer, a lost buffer, a constant and a symbolic product of sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 4)
        self.register_buffer("shift", torch.arange(4.0), persistent=False)

    def forward(self, x):
        flat = self.lstm(x)[0].reshape(x.shape[0] * x.shape[1], 8)
        return {"y": self.head(flat) + self.shift + torch.tensor(3.0), "rest": (x, None)}


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> tuple[Path, nn.Module]:
    torch.manual_seed(0)
    path, module = tmp_path_factory.mktemp("pt2") / "model.pt2", Small().eval()
    dims = {"x": {0: torch.export.Dim("batch", min=1, max=16)}}
    with pytest.warns(UserWarning, match="_flat_weights"):
        program = torch.export.export(module, (X,), dynamic_shapes=dims)
    torch.export.save(program, path)
    return path, module


def rewrite(source: Path, target: Path, changes: dict[str, bytes | None], **options) -> Path:
    """Copy an archive; members (below its root) in ``changes`` get new bytes, are added or left."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", **options) as new:
        members = {info.filename.partition("/")[2]: old.read(info) for info in old.infolist()}
        for name, data in {**members, **changes}.items():
            if data is not None:
                new.writestr(f"root/{name}", data)
    return target


class Touch:
    """Unpickling this creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def test_a_sound_file_is_read(sound):
    path, module = sound
    model = from_exported(load_pt2(path))
    assert model.inputs[0].shape == ("batch", 3, 6)
    assert [s.name for s in model.outputs] == ["y", "rest_0"]
    assert model.outputs[0].shape == ("batch * 3", 4)
    assert largest_difference(model, module, X) < 1e-5


def test_pickled_code_in_the_example_inputs_is_not_run(sound, tmp_path):
    canary = tmp_path / "canary"
    bad = saved(((Touch(canary),), {}))
    path = rewrite(sound[0], tmp_path / "bad.pt2", {"data/sample_inputs/model.pt": bad})
    with pytest.raises(InputError, match="holds pickled code") as caught:
        load_pt2(path)
    assert "nothing of it was run" in str(caught.value)
    assert not canary.exists()
    torch.load(io.BytesIO(bad), weights_only=False)
    assert canary.exists(), "the test's own pickle does nothing"


@pytest.mark.parametrize("member", ["weights/weight_0", "constants/tensor_0"])
@pytest.mark.parametrize("flag", [True, False])
def test_weights_stored_as_objects_are_refused(sound, tmp_path, member, flag):
    canary = tmp_path / "canary"
    folder, name = member.split("/")
    key = f"data/{folder}/model_{folder}_config.json"
    with zipfile.ZipFile(sound[0]) as archive:
        (full,) = [n for n in archive.namelist() if n.endswith(key)]
        config = json.loads(archive.read(full))
    entry = next(e for e in config["config"].values() if e["path_name"] == name)
    if flag:
        entry["use_pickle"] = True
    else:
        entry["path_name"] = "opaque_obj_0"
    stored = f"data/{folder}/{entry['path_name']}"
    changes = {key: json.dumps(config).encode(), stored: pickle.dumps(Touch(canary))}
    path = rewrite(sound[0], tmp_path / "bad.pt2", changes)
    with pytest.raises(InputError, match=r"pickled object|no plain model has"):
        load_pt2(path)
    assert not canary.exists()


def test_hostile_text_in_the_program_is_refused(sound, tmp_path):
    canary = tmp_path / "canary"
    with zipfile.ZipFile(sound[0]) as archive:
        (full,) = [n for n in archive.namelist() if n.endswith("models/model.json")]
        program = json.loads(archive.read(full))
    nodes = program["graph_module"]["graph"]["nodes"]
    nodes[0]["target"] = "torch.os.system"
    nodes[0]["inputs"] = [{"name": "", "arg": {"as_string": f"touch {canary}"}, "kind": 1}]
    changes = {"models/model.json": json.dumps(program).encode()}
    with pytest.raises(InputError, match=r"'torch.os.system' as target"):
        load_pt2(rewrite(sound[0], tmp_path / "bad.pt2", changes))
    assert not canary.exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("data/aotinductor/model/a.so", "is compiled code"),
        ("data/constants/custom_obj_0", "no plain model has"),
        ("models/other.json", "no plain model has"),
    ],
)
def test_foreign_members_are_refused(sound, tmp_path, name, reason):
    path = rewrite(sound[0], tmp_path / "bad.pt2", {name: b"x"})
    with pytest.raises(InputError, match=reason):
        load_pt2(path)


def test_ambiguous_archives_are_refused(sound, tmp_path):
    packed = rewrite(sound[0], tmp_path / "c.pt2", {}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError, match="is compressed"):
        load_pt2(packed)
    double = rewrite(sound[0], tmp_path / "d.pt2", {})
    with zipfile.ZipFile(double, "a") as archive:
        archive.writestr("elsewhere/models/model.json", b"{}")
    with pytest.raises(InputError, match="is there twice"):
        load_pt2(double)


def test_damaged_files(sound, tmp_path):
    data = sound[0].read_bytes()
    cases = {
        "cut.pt2": (data[: len(data) // 2], "cannot be read as a zip archive"),
        "empty.pt2": (b"", "cannot be read as a zip archive"),
        "text.pt2": (b"not a model", "cannot be read as a zip archive"),
    }
    for name, (content, reason) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=reason) as caught:
            load_pt2(tmp_path / name)
        assert name in str(caught.value) and "torch.export.save" in caught.value.todo
    flipped = bytearray(data)
    flipped[data.index(b'"graph_module"') + 3] ^= 1
    (tmp_path / "flipped.pt2").write_bytes(flipped)
    with pytest.raises(InputError, match="zip archive"):
        load_pt2(tmp_path / "flipped.pt2")
    with pytest.raises(InputError, match="no such file"):
        load_pt2(tmp_path / "none.pt2")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"models/model.json": None}, "no exported program"),
        ({"models/model.json": None, "version": b"8.9"}, "format of torch before 2.8"),
        ({"models/model.json": b"{}"}, "cannot read its program"),
        ({"models/model.json": b"[1"}, "'models/model.json' is damaged"),
        ({"models/model.json": b"[]"}, "'models/model.json' is damaged"),
        ({"data/weights/model_weights_config.json": b"{}"}, "is damaged"),
        ({"archive_version": b"99"}, "archive version"),
    ],
)
def test_incomplete_archives(sound, tmp_path, changes, reason):
    path = rewrite(sound[0], tmp_path / "bad.pt2", changes)
    with pytest.raises(InputError, match=reason):
        load_pt2(path)


def test_a_weight_without_bytes_is_not_zeros(sound, tmp_path):
    path = rewrite(sound[0], tmp_path / "bad.pt2", {"data/weights/weight_0": b""})
    with pytest.raises(InputError, match=r"bad.pt2: 'lstm.weight_ih_l0': of shape \[32, 6\]"):
        load_pt2(path)


def test_overlapping_members_are_refused(sound, tmp_path):
    data = bytearray(sound[0].read_bytes())
    begin = data.rindex(b"PK\1\2")
    data[begin + 20 : begin + 28] = (1 << 24).to_bytes(4, "little") * 2
    (tmp_path / "bad.pt2").write_bytes(data)
    with pytest.raises(InputError, match="members overlap"):
        load_pt2(tmp_path / "bad.pt2")
