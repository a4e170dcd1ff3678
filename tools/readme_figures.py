"""Write figures into README.md, from the results of the demonstration and of whole networks."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.pages import open_shapes_page  # noqa: E402 (found by the line above)
from benchmarks.pages.real_models_page import kept, verdict  # noqa: E402
from benchmarks.runtime_size import ours  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
PLACE = re.compile(
    r"(<!-- figures: benchmarks/results/(\w+).json -->\n).*?(<!-- /figures -->)", re.DOTALL
)

NETWORKS = ("resnet50", "mobilenet_v2", "bert_base", "minilm", "vit_b_16")
LEVELS = ("ours dense", "ours 75 %", "ours 87.5 %", "ours 93.75 %")


def row(level: dict[str, Any], dense_accuracy: float) -> str:
    """Return one sparsity level as a line of a Markdown table."""
    latency = {name: taken["median_us"] for name, taken in level["latency"].items()}
    cells = [
        f"{level['sparsity']:.1%}",
        level["numbers"],
        f"{dense_accuracy:.1%}",
        f"{level['accuracy']['compiled']:.1%}",
        f"{level['max_abs_error']:.1e}",
        *(f"{latency[name]:.0f}" for name in ("sparse", "dense", "pytorch")),
        f"{level['speedup']:.2f}x",
    ]
    return f"| {' | '.join(cells)} |"


def figures(record: dict[str, Any]) -> str:
    """Return the table and the sentence below it for a result of ``tvm-sparse demo --json``."""
    lines = [
        "| zeros | numbers | accuracy, dense | compiled | max abs error | sparse us "
        "| own dense float us | PyTorch eager us | over own dense |",
        "|" + "---|" * 9,
        *(row(level, record["accuracy_dense"]) for level in record["levels"]),
    ]
    machine = record["environment"]
    versions = machine["versions"]
    kib = {name: round(size / 1024) for name, size in record["size"].items()}
    calls = record["levels"][0]["latency"]["sparse"]["calls"]
    threads = machine["torch_threads"]
    text = (
        f"One image a call, median of {calls} interleaved calls, {threads} threads, "
        f"{machine['cpu']}, torch {versions['torch']}, TVM {versions['apache-tvm']}; ratios "
        "travel between machines, microseconds do not. "
        f"Artifact: {kib['sparse']} KiB, in int8 {kib['int8']} KiB, "
        f"compiled dense {kib['dense']} KiB, PyTorch parameters {kib['model']} KiB."
    )
    return "\n".join([*lines, "", text])


def networks(record: dict[str, Any]) -> str:
    """Return the table of networks on one thread for a result of ``benchmarks.cpu_models``."""
    lines = [
        "| network | numbers | fastest other | ours, dense | 75 % zeros | 87.5 % | 93.75 % |",
        "|" + "---|" * 7,
    ]
    for name in NETWORKS:
        found = [
            r for r in record["rows"] if (r["network"], r["batch"], r["threads"]) == (name, 1, 1)
        ]
        lines += [network(row) for row in found]
    return "\n".join([*lines, "", both(record["rows"])])


def both(rows: list[dict[str, Any]]) -> str:
    """Return a sentence on what zeros and bytes are worth together."""
    row = next(r for r in rows if r.get("precision") == "int8" and r["network"] == NETWORKS[0])
    dense, ours = (row["times"][name]["median_us"] for name in (row["best_float"], "ours 87.5 %"))
    return (
        f"Zeros and bytes multiply: with 87.5 % zeros in int8, {row['network']} runs "
        f"{dense / ours:.0f} times as fast as on the fastest float32 runtime."
    )


def network(row: dict[str, Any]) -> str:
    """Return one network in one precision as a line of a Markdown table."""
    best = row["best_dense"]
    ratios = (row["ratios"].get(level) for level in LEVELS)
    cells = [
        row["network"],
        row.get("precision", "float32"),
        f"{best.removesuffix(' int8')} {row['times'][best]['median_us'] / 1e3:.1f} ms",
        *(f"{ratio:.2f}x" if ratio else "" for ratio in ratios),
    ]
    return f"| {' | '.join(cells)} |"


def files(record: dict[str, Any]) -> str:
    """Return a sentence on a result of ``benchmarks.real_files``."""
    rows = record["rows"]
    right = sum(row["state"] == "right" for row in rows)
    return (
        f"Of {len(rows)} trained ONNX files in {len({row['package'] for row in rows})} packages of "
        f"others, {right} compile as published, with their open extents, and give onnxruntime's "
        "results: [each of them](docs/performance/real_files.md)."
    )


def models(record: dict[str, Any]) -> str:
    """Return a sentence on a result of ``benchmarks.real_models``."""
    said = " ".join(filter(None, (verdict(record["rows"]), kept(record["rows"]))))
    return f"{said} [Each of them](docs/performance/real_models.md)."


def runtime_size(record: dict[str, Any]) -> str:
    """Return a sentence on a result of ``benchmarks.runtime_size``."""
    shared = " (others used the machine)" if record["environment"]["shared machine"] else ""
    numpy = record["installed_mb"]["numpy"]
    return (
        f"Where models only run, `pip install ./python` is enough: a wheel of "
        f"{record['wheel_mb']:.1f} MB, {ours(record):.0f} MB installed beside NumPy's "
        f"{numpy:.0f}. Import, load and first call take {record['first_call_s']:.2f} s{shared}."
    )


def open_shapes(record: dict[str, Any]) -> str:
    """Return a sentence on a result of ``benchmarks.open_shapes``."""
    rows = [row for row in record["rows"] if row["threads"] == 1]
    return (
        f"One program with open extents takes {open_shapes_page.summary(rows)}. That is on one "
        "thread, against the closed program of each shape: "
        "[each of them](docs/performance/open_shapes.md)."
    )


def one_shot(record: dict[str, Any]) -> str:
    """Return a sentence on a result of ``benchmarks.one_shot``."""
    rows = [row for row in record["distilled"] if row["level"] == 0.75]
    best = max(rows, key=lambda row: row["distilled"]["cosine"])
    kept = {name: best[name]["cosine"] for name in ("magnitude", "one_shot", "distilled")}
    minutes = sum(best[f"{part}processor_seconds"] for part in ("", "distil_")) / 60
    return (
        f"A sentence encoder (MiniLM) with 75 % zeros keeps a cosine of {kept['one_shot']:.3f} to "
        f"its own embeddings without training; by magnitude, {kept['magnitude']:.3f}. After "
        f"{minutes:.0f} minutes of training without labels, on one core, it is "
        f"{kept['distilled']:.3f}: [each pattern and level](docs/performance/one_shot.md)."
    )


def plans(record: dict[str, Any]) -> str:
    """Return a sentence on a result of ``benchmarks.plans``."""
    rows = [row for network in record.values() for row in network["plans"] if "ms" in row]
    less = sum(row["drop"] < row["uniform_drop"] for row in rows)
    kept = sum(row["kept"] for row in rows)
    return (
        f"A plan loses less than one level everywhere at the same measured time in {less} of "
        f"{len(rows)} networks and speeds; {kept} of its {len(rows)} promises of time are kept "
        "within 5 %: [each of them](docs/performance/plans.md)."
    )


MADE = {
    "demo": figures,
    "cpu_models": networks,
    "real_models": models,
    "real_files": files,
    "open_shapes": open_shapes,
    "one_shot": one_shot,
    "plans": plans,
    "runtime_size": runtime_size,
}
"""What is made of each result."""


def refreshed(readme: str) -> str:
    """Return ``readme`` with the figures of each result between its two markers."""

    def filled(match: re.Match[str]) -> str:
        record = json.loads((RESULTS / f"{match[2]}.json").read_text(encoding="utf-8"))
        return f"{match[1]}{MADE[match[2]](record)}\n{match[3]}"

    result, count = PLACE.subn(filled, readme)
    if count != len(MADE):
        raise SystemExit(f"error: README.md has {count} places for figures, expected {len(MADE)}")
    return result


def main() -> int:
    """Rewrite README.md."""
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
