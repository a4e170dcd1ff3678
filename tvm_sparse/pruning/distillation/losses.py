"""The terms of a loss of distillation: which modules are compared, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from tvm_sparse.base.table import Table
from tvm_sparse.errors import InputError
from tvm_sparse.pruning.blocks import blocks_of
from tvm_sparse.pruning.compensation.calls import Batch, attended
from tvm_sparse.pruning.layers import matrices_of
from tvm_sparse.pruning.unmaskable import why_not


class Pair(NamedTuple):
    """What a module gives for a batch, and what the same module of the dense network gives."""

    found: list[Tensor]
    wanted: list[Tensor]
    batch: Batch


Compare = Callable[[list[Pair]], Tensor]
"""The loss of what one module gives for some batches."""


@dataclass(frozen=True)
class Term:
    """``modules(network)`` names what is compared by ``compare``; the losses are added up."""

    modules: Callable[[nn.Module], list[str]]
    compare: Compare


SPACED = 8
"""Layers that are compared where a network has no repeated blocks."""


def compared_blocks(model: nn.Module) -> list[str]:
    """Return the repeated blocks of ``model``, or else some of its layers, evenly spaced."""
    layers = (
        name
        for name, module in model.named_modules()
        if name and any(not why_not(m.module, m.parameter) for m in matrices_of(name, module))
    )
    return blocks_of(model) or spaced([*layers])


def spaced(layers: list[str]) -> list[str]:
    """Return at most :data:`SPACED` of ``layers``, the last one among them."""
    step = max(1.0, len(layers) / SPACED)
    return [layers[round(step * (i + 1)) - 1] for i in range(min(SPACED, len(layers)))]


def attentions_of(model: nn.Module) -> list[str]:
    """Return the names of the attention layers in the repeated blocks of ``model``.

    Those are the outermost modules whose class is named so: ``BertAttention``,
    ``nn.MultiheadAttention``.
    """
    found: list[str] = []
    for block in blocks_of(model):
        for name, module in model.get_submodule(block).named_modules(prefix=block):
            inside = any(name.startswith(f"{other}.") for other in found)
            if "attention" in type(module).__name__.lower() and name != block and not inside:
                found.append(name)
    return found


def relative_error(pairs: list[Pair]) -> Tensor:
    """Return the sum of ``||s - t||^2 / ||t||^2`` over all outputs, norms being of all batches."""
    terms = []
    for i in range(len(pairs[0].wanted)):
        errors, norms = [], []
        for found, wanted, batch in pairs:
            s, t = attended(found[i], batch).float(), attended(wanted[i], batch).float()
            errors.append((s - t).square().sum())
            norms.append(t.square().sum())
        terms.append(torch.stack(errors).sum() / torch.stack(norms).sum().clamp(min=1e-12))
    return torch.stack(terms).sum()


def cosine(pairs: list[Pair]) -> Tensor:
    """Return 1 - the mean cosine of the embeddings (see :func:`embeddings`)."""
    cosines = []
    for found, wanted, batch in pairs:
        s, t = (embeddings(side[0].float(), batch) for side in (found, wanted))
        cosines.append(functional.cosine_similarity(s, t, dim=-1).mean())
    return 1 - torch.stack(cosines).mean()


def embeddings(states: Tensor, batch: Batch) -> Tensor:
    """Return one vector a sample of ``states`` (samples, ...).

    For (samples, tokens, features) it is the mean over the tokens that the batch's
    ``attention_mask`` keeps; other shapes are flattened.
    """
    if states.dim() != 3:
        return states.flatten(1) if states.dim() > 1 else states[None]
    mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    if not isinstance(mask, Tensor) or mask.shape != states.shape[:2]:
        return states.mean(1)
    kept = mask[..., None].to(states)
    return (states * kept).sum(1) / kept.sum(1).clamp(min=1)


def divergence(pairs: list[Pair]) -> Tensor:
    """Return the mean Kullback-Leibler divergence of the classes that logits give."""
    terms = []
    for found, wanted, batch in pairs:
        s, t = (attended(side[0].float(), batch).log_softmax(-1) for side in (found, wanted))
        terms.append(functional.kl_div(s, t, reduction="batchmean", log_target=True))
    return torch.stack(terms).mean()


LOSSES: Table[Term] = Table(
    "loss",
    {
        "blocks": Term(compared_blocks, relative_error),
        "attention": Term(attentions_of, relative_error),
        "outputs": Term(lambda model: [""], relative_error),
        "cosine": Term(lambda model: [""], cosine),
        "kl": Term(lambda model: [""], divergence),
    },
)
"""By the name in the mapping ``losses`` of :func:`.distil`."""


@dataclass(frozen=True)
class Loss:
    """The weighted sum of terms, each over some of the modules ``names``."""

    names: tuple[str, ...]
    parts: tuple[tuple[float, Compare, tuple[int, ...]], ...]

    def __call__(
        self,
        found: list[list[list[Tensor]]],
        wanted: list[list[list[Tensor]]],
        batches: Sequence[Batch],
    ) -> Tensor:
        """Return the loss of the outputs of all ``names`` for ``batches``, those of each first."""
        terms = []
        for weight, compare, places in self.parts:
            for place in places:
                sides = zip(found, wanted, batches, strict=True)
                pairs = [Pair(s[place], t[place], batch) for s, t, batch in sides if s[place]]
                for pair in pairs:
                    _check(self.names[place], pair)
                if pairs:
                    terms.append(weight * compare(pairs))
        if not terms:
            raise InputError("losses", "no output to compare", "modules that the network calls")
        return torch.stack(terms).sum()


def _check(name: str, pair: Pair) -> None:
    """Refuse outputs of the module ``name`` that are not of the teacher's shapes."""
    found, wanted = ([tuple(state.shape) for state in side] for side in pair[:2])
    if found != wanted:
        where = f"teacher, module '{name}'" if name else "teacher"
        shapes = ", ".join(map(str, wanted)) or "nothing"
        raise InputError(
            where,
            f"gives {shapes}",
            f"the student's shapes, {', '.join(map(str, found))}",
            "the teacher is the dense network that the student was pruned from",
        )


def loss_of(model: nn.Module, weights: Mapping[str, float], optional: bool = False) -> Loss:
    """Return the loss whose terms have ``weights``.

    A key is a name in :data:`LOSSES`, or that of a module whose outputs are compared by
    :func:`relative_error`. With ``optional``, a term without a module in ``model`` is left out.

    Raises
    ------
    InputError
        A key is neither, or a term has no module.
    """
    known, names = LOSSES.parts(), dict[str, int]()
    parts = []
    for key, weight in weights.items():
        term = known.get(key) or Term(_one(model, key, list(known)), relative_error)
        modules = term.modules(model)
        if not modules and not optional:
            raise InputError(
                f"loss '{key}'", "the network has no such modules", "the name of a module"
            )
        places = tuple(names.setdefault(name, len(names)) for name in modules)
        parts.append((weight, term.compare, places))
    return Loss(tuple(names), tuple(parts))


def _one(model: nn.Module, name: str, known: list[str]) -> Callable[[nn.Module], list[str]]:
    """Return what gives ``name`` if ``model`` has a module of that name."""
    try:
        model.get_submodule(name)
    except AttributeError as error:
        expected = f"{', '.join(known)}, or a fully qualified name"
        raise InputError(f"loss '{name}'", "is no module of the network", expected) from error
    return lambda _: [name]
