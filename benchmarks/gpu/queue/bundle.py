"""Pack a folder for a GPU machine that can download nothing: TVM, Python packages, machine code.

The machine has Python, PyTorch with CUDA, Triton, NumPy and SciPy; everything else that the project
needs comes along, for that machine's Python. The folder has numbered parts, because a transfer has
a limit; ``. build/bundle/unpack.sh`` in the project's root puts them together there.
"""

from __future__ import annotations

import importlib.metadata
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.gpu import models, prepare
from benchmarks.gpu.results import tell

ROOT = Path(__file__).resolve().parents[3]
PLACE = ROOT / "build" / "bundle"

PYTHON = "3.12"
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (34, 31, 28, 27, 24, 17, 12, 5)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"),
)

THERE = frozenset({"torch", "numpy", "scipy", "triton", "tvm-sparse", "tvm-sparse-runtime"})
"""What the machine has, and what is built here."""

EXTRAS = ("tune",)
CODE = ("nvidia-nvfatbin", "nvidia-cuda-crt", "nvidia-cuda-cccl")
"""Of the extra ``cuda``: PyTorch brings the rest."""

TVM = "apache-tvm"
UNREAD = re.compile(
    r"tvm/(3rdparty|src|web)/|tvm_ffi/lib/libtvm_ffi_testing\.so"
    r"|nvidia/\w+/include/cccl/(cub|thrust)/|(.*/)?__pycache__/"
)
"""Files of packages that nothing reads which runs: of the headers beside CUDA's, which NVRTC reads,
our kernels include some of ``cuda`` and ``nv``."""

UNPACK = """\
# Sourced in the project's root on the GPU machine: puts the parts together, sets PYTHONPATH.
export TVM_FFI_DISABLE_TORCH_C_DLPACK=1 TVM_BIND_THREADS=0 PYTHONUNBUFFERED=1
site="${BUNDLE_SITE:-/tmp/site}"
if [[ ! -e "$site/.whole" ]]; then
  python3 - "$(dirname "${BASH_SOURCE[0]}")" "$site" <<'PYTHON' || return 1
import io, lzma, pathlib, sys, tarfile
bundle, site = map(pathlib.Path, sys.argv[1:])
wanted = (bundle / "parts.txt").read_text().split()
missing = [name for name in wanted if not (bundle / name).exists()]
if missing:
    sys.exit(f"not transferred yet: {', '.join(missing)}")
class Joined(io.RawIOBase):
    def __init__(self, paths):
        self.files = [open(path, "rb") for path in paths]
    def readable(self):
        return True
    def readinto(self, buffer):
        while self.files:
            count = self.files[0].readinto(buffer)
            if count:
                return count
            self.files.pop(0).close()
        return 0
for archive, target in (("site", site), ("own", site), ("built", pathlib.Path("."))):
    paths = [bundle / name for name in wanted if pathlib.Path(name).name.startswith(archive)]
    with lzma.open(io.BufferedReader(Joined(paths), 1 << 20)) as file:
        with tarfile.open(fileobj=file, mode="r|") as members:
            members.extractall(target, filter="data")
(site / ".whole").touch()
PYTHON
fi
# The installed package, not the folder of its sources here; the benchmarks are only here.
export PYTHONSAFEPATH=1 PYTHONPATH="$site:$PWD${PYTHONPATH:+:$PYTHONPATH}"
"""


def write(place: Path, megabytes: int) -> list[Path]:
    """Write the bundle into ``place``, parts of at most ``megabytes``; return them."""
    place.mkdir(parents=True, exist_ok=True)
    for old in place.glob("part[0-9]*"):
        shutil.rmtree(old)
    cache = place / "cache"
    files = prepare.code_files(prepare.KERNEL_CODE, models.CODE)
    built = _archive(cache / "built.tar.xz", ROOT, files, preset=6)
    parts = list(split([_packages(cache), _own(cache), built], place, megabytes << 20))
    names = "".join(f"{part.relative_to(place)}\n" for part in parts)
    (place / "parts.txt").write_text(names)
    (place / "unpack.sh").write_text(UNPACK)
    for folder in sorted({part.parent for part in parts}):
        size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
        tell(
            f"{folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder}: {size:.1f} MB"
        )
    return parts


def split(archives: Iterable[Path], place: Path, limit: int) -> Iterator[Path]:
    """Cut ``archives`` into files in folders ``part1``, ``part2``, … of at most ``limit`` bytes."""
    number, room = 1, limit
    for archive in archives:
        with archive.open("rb") as source:
            for piece in range(1000):
                if not room:
                    number, room = number + 1, limit
                data = source.read(room)
                if not data:
                    break
                room -= len(data)
                target = place / f"part{number}" / f"{archive.stem.split('.')[0]}.{piece:03}"
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(data)
                yield target


def requirements(extras: Iterable[str] = EXTRAS, there: frozenset[str] = THERE) -> list[str]:
    """Return ``name==version`` of all that the project needs and the machine lacks, as here.

    The closure of what packages say they need, so that nothing is forgotten; TVM is copied instead.
    """
    found: dict[str, str] = {}
    waiting = [("tvm-sparse", frozenset(extras)), *((name, frozenset()) for name in CODE)]
    while waiting:
        name, wanted = waiting.pop()
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if name not in there and name != TVM:
            found[name] = distribution.version
        for line in distribution.requires or ():
            needed = _normal(re.match(r"[\w.-]+", line)[0])
            extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
            own = name in ("tvm-sparse", "tvm-sparse-runtime") or needed not in there
            if (extra is None or extra[1] in wanted) and needed not in found and own:
                if needed not in there or needed == "tvm-sparse-runtime":
                    waiting.append((needed, frozenset()))
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _packages(cache: Path) -> Path:
    """Return the archive of TVM and what else is needed, made anew if a version has changed."""
    wanted = requirements()
    staged, archive, stamp = cache / "site", cache / "site.tar.xz", cache / "site.txt"
    text = "\n".join([*wanted, importlib.metadata.version(TVM), UNREAD.pattern])
    if archive.exists() and stamp.exists() and stamp.read_text() == text:
        return archive
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    target = ["--no-deps", "--quiet", "--no-compile", "--target", str(staged)]
    foreign = ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"]
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    _pip("install", *target, *foreign, *platforms, *wanted)
    _copy_tvm(staged)
    found = [path for path in staged.rglob("*") if path.is_file()]
    files = [path for path in found if not UNREAD.match(path.relative_to(staged).as_posix())]
    tell(f"compressing {sum(path.stat().st_size for path in files) / 2**20:.0f} MB of packages")
    _archive(archive, staged, files, preset=9)
    stamp.write_text(text)
    return archive


def _own(cache: Path) -> Path:
    """Return the archive of the project's packages; tests on a GPU import the emulator, too."""
    staged, wheels = cache / "own", cache / "wheels"
    for folder in (staged, wheels):
        shutil.rmtree(folder, ignore_errors=True)
    for source in (ROOT, ROOT / "python", ROOT / "emulator"):
        _pip("wheel", "--no-deps", "--quiet", "-w", str(wheels), str(source))
    for wheel in wheels.glob("*.whl"):
        shutil.unpack_archive(wheel, staged, "zip")
    files = [path for path in staged.rglob("*") if path.is_file()]
    return _archive(cache / "own.tar.xz", staged, files, preset=6)


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def _copy_tvm(staged: Path) -> None:
    """Copy TVM as it is installed: its wheel fits any Python; its metadata says so."""
    distribution = importlib.metadata.distribution(TVM)
    for file in distribution.files or ():
        if ".." in file.parts or UNREAD.match(file.as_posix()):
            continue
        source = Path(str(distribution.locate_file(file)))
        if source.is_file():
            (staged / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, staged / file)


def _archive(path: Path, root: Path, files: Iterable[Path], preset: int) -> Path:
    """Write ``files`` of ``root`` to a compressed archive; x86 code is filtered for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = {"id": lzma.FILTER_X86}
    filters = [code, {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": 64 << 20}]
    with lzma.open(path, "wb", filters=filters) as file:
        with tarfile.open(fileobj=file, mode="w|") as members:
            for one in sorted(files):
                members.add(one, one.relative_to(root))
    return path
