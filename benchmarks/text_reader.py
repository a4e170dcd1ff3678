"""A program that reads text, as it is installed, and with this package in onnxruntime's place.

    pip install rapidocr-onnxruntime
    python -m benchmarks.text_reader --folder build/reader     # results/text_reader.json

RapidOCR finds lines, turns them and reads them with three networks of open extents. Its code is
the package's; a program differs in what runs the networks, and in the files that it is given:
published, with zeros after one pass without training, in int8. Each program is a process with one
thread; pages are read in turns. ``letters`` is the share of the letters on all pages that were
read right, in order.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cases import synthetic_data as made
from benchmarks.cases.trained_files import FILES
from benchmarks.harness import common
from benchmarks.harness.threads import limit_threads

NAME = "text_reader"
PAGES, SIZES, SEED = 8, ((480, 640), (800, 600), (320, 900)), 3
PARTS = {
    "det_model_path": "PP-OCRv4 text detection",
    "cls_model_path": "PP-OCR text direction",
    "rec_model_path": "PP-OCRv4 text recognition",
}
"""Arguments of RapidOCR, and the files that are given to it."""

ONNXRUNTIME, OURS = "onnxruntime", "ours"
PUBLISHED, INT8 = "published", "int8"
ZEROS = (0.5,)
PROGRAMS = (
    *((ONNXRUNTIME, numbers) for numbers in (PUBLISHED, INT8)),
    *((OURS, numbers) for numbers in (PUBLISHED, INT8)),
    *((OURS, f"{round(100 * zeros)} % zeros{rest}") for rest in ("", ", int8") for zeros in ZEROS),
)


def main() -> None:
    options = _arguments()
    if options.worker:
        _work(options.worker, json.loads(options.files))
        return
    limit_threads(1)
    os.environ["XDG_CACHE_HOME"] = str(options.folder.resolve() / "cache")
    draw = random.Random(SEED)
    pages = [made.page(draw, *SIZES[i % len(SIZES)]) for i in range(PAGES)]
    pictures = options.folder / "pages"
    pictures.mkdir(parents=True, exist_ok=True)
    for i, (picture, _) in enumerate(pages):
        picture.convert("RGB").save(pictures / f"{i}.png")
    variants = _files(options.folder)
    readers = {
        f"{runtime}, {variant}": _Reader(runtime, variants[variant], pictures)
        for runtime, variant in PROGRAMS
    }
    rows = []
    for name, reader in readers.items():
        found = [reader.read(i) for i in range(PAGES)]
        letters = _letters(found, [lines for _, lines in pages])
        rows.append({"program": name, "letters": letters, "start_s": reader.start_s, "ms": []})
        print(name, round(letters, 4), f"{reader.start_s:.1f} s to start", flush=True)
    for i in range(PAGES):
        one = {name: _reading(reader, i) for name, reader in readers.items()}
        times = common.interleaved(one, options.rounds, 0.01)
        for row in rows:
            row["ms"].append(times[row["program"]]["median_us"] / 1e3)
        print(i, {name: round(t["median_us"] / 1e3, 1) for name, t in times.items()}, flush=True)
    about = common.environment(1) | {"shared machine": options.shared}
    common.save(
        NAME, {"environment": about, "pages": [list(p.size) for p, _ in pages], "rows": rows}
    )


class _Reader:
    """A process that reads pages when it is asked to."""

    def __init__(self, runtime: str, files: dict[str, str], pictures: Path) -> None:
        module = ["-W", "ignore", "-m", "benchmarks.text_reader", "--folder", str(pictures)]
        command = [sys.executable, *module, "--worker", runtime, "--files", json.dumps(files)]
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pictures = pictures
        self._answer()
        self.start_s = round(time.perf_counter() - begin, 1)

    def read(self, page: int) -> list[str]:
        """Return the lines of a page."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{self.pictures / f'{page}.png'}\n")
        self.process.stdin.flush()
        return list(self._answer())

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


def _reading(reader: _Reader, page: int) -> Callable[[], object]:
    return lambda: reader.read(page)


def _work(runtime: str, files: dict[str, str]) -> None:
    """Read the pages whose paths arrive, with the package's own code."""
    if runtime == OURS:
        from tvm_sparse.compat import onnxruntime

        onnxruntime.install()
    answers, sys.stdout = sys.stdout, sys.stderr
    from rapidocr_onnxruntime import RapidOCR

    reader = RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1, **files)
    print(json.dumps([]), file=answers, flush=True)
    for path in sys.stdin:
        found, _ = reader(path.strip())
        print(json.dumps([line[1] for line in found or []]), file=answers, flush=True)


def _letters(found: list[list[str]], wanted: list[list[str]]) -> float:
    """Return the share of the letters that are read right, in order, spaces aside."""
    right = total = 0
    for one, other in zip(found, wanted, strict=True):
        read, written = ("".join(lines).replace(" ", "") for lines in (one, other))
        match = difflib.SequenceMatcher(None, read, written, autojunk=False)
        right += sum(block.size for block in match.get_matching_blocks())
        total += max(len(read), len(written))
    return right / total


def _files(folder: Path) -> dict[str, dict[str, str]]:
    """Return the files of each variant by RapidOCR's arguments; they are made where missing."""
    import rapidocr_onnxruntime

    import tvm_sparse as ts
    from tvm_sparse.pruning.methods.balanced import BalancedPruning

    place, found = Path(rapidocr_onnxruntime.__file__).parent, dict[str, dict[str, str]]()
    for argument, name in PARTS.items():
        case = next(one for one in FILES if one.name == name)
        path = next(place.rglob(Path(case.file).name))
        feeds = [call.feed for call in case.calls(path, SEED, case.calibration)]
        sources = {"": path}
        for zeros in ZEROS:
            file = folder / f"{path.stem}-{zeros}.onnx"
            if not file.exists():
                ts.prune.onnx(path, BalancedPruning(zeros), calibration=feeds, output=file)
            sources[f"{round(100 * zeros)} % zeros"] = file
        for said, source in sources.items():
            file = folder / f"{source.stem}-int8.onnx"
            if not file.exists():
                ts.quantize_onnx(source, feeds, output=file)
            found.setdefault(said or PUBLISHED, {})[argument] = str(source)
            found.setdefault(f"{said}, {INT8}" if said else INT8, {})[argument] = str(file)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"benchmarks.{NAME}", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where files and programs lie")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each page")
    parser.add_argument("--shared", action="store_true", help="say that others used the machine")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--files", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
