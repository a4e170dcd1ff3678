import lzma
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu.queue import bundle


def archive(path, files):
    """An archive of random bytes, which do not compress."""
    rng, folder = np.random.default_rng(0), path.parent / f"{path.name} files"
    for name, size in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(rng.bytes(size))
    return bundle._archive(path, folder, [folder / name for name in files], preset=0)


@pytest.fixture
def packed(tmp_path):
    """A bundle of two archives in parts of 40 kB."""
    place = tmp_path / "project" / "bundle"
    place.mkdir(parents=True)
    site = archive(tmp_path / "site.tar.xz", {"tvm/a.so": 70_000, "b.py": 10})
    own = archive(tmp_path / "own.tar.xz", {"tvm_sparse/__init__.py": 20})
    built = archive(tmp_path / "built.tar.xz", {"build/gpu/k/code/kernel.so": 30_000})
    parts = list(bundle.split([site, own, built], place, 40_000))
    (place / "parts.txt").write_text("".join(f"{part.relative_to(place)}\n" for part in parts))
    (place / "unpack.sh").write_text(bundle.UNPACK)
    return place


def unpack(place, site):
    code = f'export BUNDLE_SITE="{site}"; . bundle/unpack.sh; echo "$PYTHONPATH"'
    done = subprocess.run(
        ["bash", "-c", code], cwd=place.parent, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_parts_keep_within_the_limit(packed):
    sizes = [sum(f.stat().st_size for f in part.iterdir()) for part in packed.glob("part*/")]
    assert len(sizes) == 3
    assert max(sizes) == 40_000


def test_a_bundle_is_packed_again_over_the_one_before(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "_packages", lambda cache: tmp_path / "site.tar.xz")
    monkeypatch.setattr(bundle, "_own", lambda cache: tmp_path / "own.tar.xz")
    monkeypatch.setattr(bundle.prepare, "code_files", lambda *folders: [])
    for _ in range(2):
        bundle.write(packed, 1)
        assert sorted(path.name for path in packed.glob("part*")) == ["part1", "parts.txt"]


def test_it_is_whole_on_the_other_side(packed, tmp_path):
    site = tmp_path / "site"
    assert str(site) in unpack(packed, site)
    original = tmp_path / "site.tar.xz files"
    assert (site / "tvm/a.so").read_bytes() == (original / "tvm/a.so").read_bytes()
    assert (site / "b.py").stat().st_size == 10
    assert (site / "tvm_sparse/__init__.py").stat().st_size == 20
    assert (packed.parent / "build/gpu/k/code/kernel.so").stat().st_size == 30_000
    for part in packed.glob("part*/*"):
        part.unlink()
    assert str(site) in unpack(packed, site)  # once is enough


def test_a_part_that_was_not_transferred_is_named(packed, tmp_path):
    (lost,) = packed.glob("part2/site*")
    lost.unlink()
    told = unpack(packed, tmp_path / "site")
    assert f"not transferred yet: part2/{lost.name}" in told


def test_what_the_project_needs_comes_along():
    names = {line.split("==")[0] for line in bundle.requirements()}
    assert names >= {"pydantic", "pydantic-core", "platformdirs", "apache-tvm-ffi", "typer"}
    assert names >= {"nvidia-nvfatbin", "xgboost-cpu", "ml-dtypes", "safetensors"}
    assert not names & {"torch", "numpy", "scipy", "apache-tvm", "tvm-sparse"}


def test_tvm_is_copied_with_its_metadata(tmp_path, monkeypatch):
    copied = []
    monkeypatch.setattr(bundle.shutil, "copy", lambda source, target: copied.append(Path(target)))
    bundle._copy_tvm(tmp_path)
    found = {path.relative_to(tmp_path).as_posix() for path in copied}
    assert "tvm/__init__.py" in found
    assert any(name.endswith(".dist-info/METADATA") for name in found)
    assert any(name.endswith("libtvm_compiler.so") for name in found)
    assert not any(name.startswith("tvm/3rdparty/") or "__pycache__" in name for name in found)


def test_what_nothing_reads_stays_here(tmp_path, monkeypatch):
    read = ("tvm/lib/libtvm_compiler.so", "nvidia/cu13/include/cccl/cuda/std/cstdint", "a.py")
    unread = ("nvidia/cu13/include/cccl/cub/cub.cuh", "tvm_ffi/lib/libtvm_ffi_testing.so")

    def install(*arguments):
        place = Path(arguments[arguments.index("--target") + 1])
        for name in (*read, *unread):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text("x")

    monkeypatch.setattr(bundle, "_pip", install)
    monkeypatch.setattr(bundle, "_copy_tvm", lambda staged: None)
    monkeypatch.setattr(bundle, "requirements", lambda: ["a==1"])
    with lzma.open(bundle._packages(tmp_path)) as file, tarfile.open(fileobj=file) as members:
        assert members.getnames() == sorted(read)


def test_archives_open_elsewhere(tmp_path):
    path = archive(tmp_path / "x.tar.xz", {"a/b": 5})
    with lzma.open(path) as file, tarfile.open(fileobj=file) as members:
        assert members.getnames() == ["a/b"]
