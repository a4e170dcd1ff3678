"""Pruning PyTorch models by the papers' methods, with masks that survive training."""

from tvm_sparse.pruning.batch_norms import reestimate_batch_norms
from tvm_sparse.pruning.deprune.method import DEPrune
from tvm_sparse.pruning.distillation.by_length import batches_by_length
from tvm_sparse.pruning.distillation.distil import distil
from tvm_sparse.pruning.fractals import fractal_pictures
from tvm_sparse.pruning.functions import (
    balanced,
    block,
    deprune,
    filters,
    joint,
    n_m,
    prune,
    unstructured,
)
from tvm_sparse.pruning.layer_sparsities import layer_sparsities
from tvm_sparse.pruning.masks import squashed_copy
from tvm_sparse.pruning.methods.balanced import BalancedPruning
from tvm_sparse.pruning.methods.base import Method, Proposal
from tvm_sparse.pruning.methods.dense import KeepAll
from tvm_sparse.pruning.methods.filters import FilterPruning
from tvm_sparse.pruning.methods.joint import JointPruning
from tvm_sparse.pruning.methods.layers import LayerPruning
from tvm_sparse.pruning.methods.projection import PatternPruning, UnstructuredPruning
from tvm_sparse.pruning.one_shot import one_shot
from tvm_sparse.pruning.onnx_models.function import onnx
from tvm_sparse.pruning.onnx_models.network import OnnxNetwork
from tvm_sparse.pruning.pruner import Pruner
from tvm_sparse.pruning.recipe import Recipe, load_recipe
from tvm_sparse.pruning.report import LayerReport, Report
from tvm_sparse.pruning.schedule import Exponential, Levels, OneShot, Schedule
from tvm_sparse.pruning.structure.separable import find_separable

__all__ = [
    "BalancedPruning",
    "DEPrune",
    "Exponential",
    "FilterPruning",
    "JointPruning",
    "KeepAll",
    "LayerPruning",
    "LayerReport",
    "Levels",
    "Method",
    "OneShot",
    "OnnxNetwork",
    "PatternPruning",
    "Proposal",
    "Pruner",
    "Recipe",
    "Report",
    "Schedule",
    "UnstructuredPruning",
    "balanced",
    "batches_by_length",
    "block",
    "deprune",
    "distil",
    "filters",
    "find_separable",
    "fractal_pictures",
    "joint",
    "layer_sparsities",
    "load_recipe",
    "n_m",
    "one_shot",
    "onnx",
    "prune",
    "reestimate_batch_norms",
    "squashed_copy",
    "unstructured",
]
