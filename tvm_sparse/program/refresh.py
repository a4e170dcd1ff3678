"""New values for the weights of an artifact, without compiling.

A refreshable artifact holds its model's graph. The passes up to the packing of weights run again on
the graph with the new values; what they give must have the same code, so the old code runs it.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.target import Target

from tvm_sparse.artifact.rewrite import rewritten
from tvm_sparse.base import json_text
from tvm_sparse.base.config import Config, Precision
from tvm_sparse.errors import ArtifactError, InputError
from tvm_sparse.frontends.files.checkpoint import Checkpoint
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.modules.effective import to_numpy
from tvm_sparse.passes import pipeline
from tvm_sparse.passes.finish.lift_weights import LiftWeights
from tvm_sparse.passes.graph.failures import applied
from tvm_sparse.schedules.build import build_context
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions
from tvm_sparse_runtime.manifest import REFRESH_FILE, Manifest

AGAIN = "compile the model again"


@dataclass(frozen=True)
class Recipe:
    """How the arrays of an artifact come from the weights of its model.

    Parameters
    ----------
    module
        The imported graph without its weights, in TVM's JSON.
    target
        What it was compiled for, likewise.
    weights
        Name to dtype, shape and a checksum of the mask, which matrices and kernels have.
    force
        What was chosen for each layer.
    sparse
        Whether the configuration allowed sparse formats.
    precision
        What floats were multiplied in.
    code
        A checksum of the program that the packed weights are given to.
    """

    module: str
    target: str
    weights: dict[str, list[Any]]
    force: dict[str, str]
    sparse: bool
    precision: Precision
    code: str

    @staticmethod
    def of(model: Model, target: Target, config: Config, decisions: Decisions) -> Recipe:
        """Return the recipe of a compiled model."""
        force = {glob.escape(layer): way for layer, way in decisions.built().items()}
        graph = tvm.ir.save_json(model.module), tvm.ir.save_json(target)
        held = {name: _description(weight) for name, weight in model.weights.items()}
        recipe = Recipe(*graph, held, force, config.sparse, config.precision, "")
        _, code = recipe.packed(model)
        return Recipe(**{**vars(recipe), "code": code})

    def packed(self, model: Model) -> tuple[dict[str, np.ndarray], str]:
        """Return the arrays that the program takes, and the checksum of the program."""
        target = tvm.ir.load_json(self.target)
        config = Config(
            sparse=self.sparse,
            precision=self.precision,
            force=self.force,
            measure=False,
            cache=False,
        )
        chooser, arrays = Chooser(target, config, Decisions()), dict[str, np.ndarray]()
        mod = model.module
        with build_context(target):
            steps = pipeline.lowering(model.weights, len(model.inputs), chooser)
            for step in (*steps, LiftWeights(arrays)):
                mod = applied(step, mod, "lowered")
        return arrays, format(tvm_ffi.structural_hash(mod) % 2**64, "016x")

    def to_bytes(self) -> bytes:
        """Return the JSON document that artifacts hold."""
        return json.dumps(vars(self)).encode()


def refresh(artifact: Path, weights: Path, output: Path, *, force: bool = False) -> Manifest:
    """Write a copy of a refreshable artifact with other values.

    Parameters
    ----------
    artifact
        What was exported of a model compiled with ``Config(refreshable=True)``; it is verified.
    weights
        A safetensors file with every weight of the model: same names, shapes, dtypes and zeros.
    output
        Place of the new artifact.
    force
        Replace an artifact that is there.

    Raises
    ------
    ArtifactError
        The artifact is not refreshable, or the values would change its code.
    InputError
        A weight is missing, has another shape or dtype, is not finite, or has other zeros.
    """

    def packed(old: Manifest, document: bytes | None) -> Mapping[str, np.ndarray]:
        if document is None:
            todo = "compile it with Config(refreshable=True)"
            raise ArtifactError(str(artifact), "it holds no graph", REFRESH_FILE, todo)
        if (maker := old.versions["tvm_sparse"]) != (here := version("tvm-sparse")):
            found = f"made with tvm-sparse {maker}, here it is {here}"
            raise ArtifactError(str(artifact), found, "the same version", AGAIN)
        recipe = Recipe(**json_text.parsed(document))
        model = _model(recipe, weights, old)
        arrays, code = recipe.packed(model)
        held = [(weight.name, weight.dtype, weight.shape) for weight in old.weights]
        made = [(name, array.dtype.name, array.shape) for name, array in arrays.items()]
        if code != recipe.code or held != made:
            found = "its values change the code (a constant in it, or an exact zero)"
            raise ArtifactError(str(weights), found, "values that do not", AGAIN)
        return arrays

    return rewritten(artifact, output, packed, force=force)


def _model(recipe: Recipe, path: Path, old: Manifest) -> Model:
    """Return the model of a recipe with the weights of a file."""
    file, found = Checkpoint(path), {}
    for name, expected in recipe.weights.items():
        if name not in file.names:
            raise InputError(str(path), f"no weight {name}", "every weight of the model")
        given = to_numpy(file.tensor(name), name)
        described, where = _description(given), f"{path}: weight {name}"
        if described[:2] != expected[:2]:
            wanted = f"{expected[0]} of shape {expected[1]}"
            raise InputError(where, f"{described[0]} of shape {described[1]}", wanted)
        if not np.isfinite(given).all():
            raise InputError(where, "values that are not finite", "finite numbers")
        if described != expected:
            raise InputError(where, "its zeros are elsewhere", "the same mask", AGAIN)
        found[name] = given
    return Model(tvm.ir.load_json(recipe.module), found, old.inputs, old.outputs)


def _description(weight: np.ndarray) -> list[Any]:
    """Return dtype, shape and a checksum of the mask; vectors have none."""
    kept = np.packbits(np.asarray(weight) != 0) if weight.ndim > 1 else np.empty(0, np.uint8)
    digest = hashlib.sha256(kept.data).hexdigest()
    return [weight.dtype.name, list(map(int, weight.shape)), digest]
