"""The card of an artifact: what a visitor of its repository reads, and what the Hub searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .manifest import Manifest

CARD = "README.md"
MADE = "<!-- made by tvm-sparse; remove this line to keep what you write -->"


def card(
    manifest: Manifest,
    folder: str,
    repository: str,
    *,
    license: str | None = None,
    base_model: str | None = None,
) -> str:
    """Return the card as Markdown, after a block of YAML with what the Hub searches.

    ``folder`` is the artifact's folder in ``repository``.
    """
    return "\n".join([*_block(manifest, license, base_model), *_text(manifest, folder, repository)])


def _block(manifest: Manifest, license: str | None, base_model: str | None) -> Iterator[str]:
    yield "---"
    yield "library_name: tvm-sparse"
    if license:
        yield f"license: {_scalar(license)}"
    if base_model:
        yield f"base_model: {_scalar(base_model)}"
    yield "tags:"
    archs = [arch for program in manifest.programs() for arch in program.target.gpu_archs]
    tags = ["tvm-sparse", "pruned", manifest.target.machine, *archs]
    yield from (f"- {_scalar(tag)}" for tag in tags)
    yield "---"


def _scalar(text: str) -> str:
    """Return ``text`` as YAML that is a string whatever it holds."""
    return "'" + " ".join(text.split()).replace("'", "''") + "'"


def _text(manifest: Manifest, folder: str, repository: str) -> Iterator[str]:
    yield MADE
    yield ""
    yield f"# {repository.rpartition('/')[2]}"
    yield ""
    yield (
        "A pruned network, compiled by tvm-sparse. It runs without PyTorch and without a compiler:"
    )
    yield ""
    yield "```python"
    yield "# pip install 'tvm-sparse-runtime[hub]'"
    yield "import tvm_sparse_runtime as runtime"
    yield "from tvm_sparse_runtime.hub import pull"
    yield ""
    yield f'library = runtime.load(pull("{repository}", "models"))'
    yield f"outputs = library({', '.join(_argument(i) for i in manifest.inputs)})"
    yield "```"
    yield ""
    yield "Loading it runs its code: pull from owners whom you trust, or pass `trusted=` to `load`."
    yield ""
    yield "| | |"
    yield "|---|---|"
    for what, said in _rows(manifest, folder):
        yield f"| {what} | {said.replace('|', ' ')} |"
    yield ""


def _argument(spec: object) -> str:
    name = getattr(spec, "name", "x")
    return name if name.isidentifier() else "x"


def _rows(manifest: Manifest, folder: str) -> Iterator[tuple[str, str]]:
    yield "folder", f"`{folder}`"
    yield "inputs", "; ".join(f"`{spec}`" for spec in manifest.inputs)
    yield "outputs", "; ".join(f"`{spec}`" for spec in manifest.outputs)
    yield "machine", ", or ".join(_machine(program) for program in manifest.programs())
    size = sum(record.size for record in manifest.files.values())
    yield "files", f"{size / 2**20:.1f} MiB"
    yield "layers", _layers(manifest)
    yield "made by", ", ".join(f"{name} {version}" for name, version in manifest.versions.items())


def _machine(manifest: Manifest) -> str:
    target = manifest.target
    if target.gpu_archs:
        return f"NVIDIA {', '.join(target.gpu_archs)} ({target.machine})"
    features = ", ".join(sorted(target.cpu_features))
    return f"{target.machine} with {features}" if features else target.machine


def _layers(manifest: Manifest) -> str:
    """Return how many layers have which format."""
    counts = Counter(str(layer.get("chosen", "dense")) for layer in manifest.decisions)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"
