"""Which weights of a model can be pruned, chosen by fully qualified name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from tvm_sparse.base.names import matches
from tvm_sparse.errors import InputError
from tvm_sparse.pruning.masks import find_mask, original_parameter
from tvm_sparse.pruning.unmaskable import why_not

LINEAR, CONV, RECURRENT = "linear", "conv", "recurrent"
GROUPED, DEPTHWISE = "grouped conv", "depthwise conv"
MATRIX = (LINEAR, CONV, RECURRENT)
"""The sorts of layer whose weight is one matrix ``(out, in * taps)``; the default to prune."""

_PROJECTIONS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")


@dataclass(frozen=True)
class PrunableLayer:
    """One parameter that can be masked, of the module called ``name`` in the model.

    ``transposed`` parameters are ``(inputs, outputs)``. All that this class gives out has the
    outputs first; :meth:`own` turns such a tensor into the parameter's layout.
    """

    name: str
    module: nn.Module
    sort: str
    parameter: str = "weight"
    transposed: bool = False

    @property
    def key(self) -> str:
        """The parameter's fully qualified name, as in the model's ``state_dict``."""
        return f"{self.name}.{self.parameter}" if self.name else self.parameter

    @property
    def label(self) -> str:
        """The layer's name in reports, with the parameter's after it if it has several weights."""
        return self.name if self.parameter == "weight" else self.key

    @property
    def stored(self) -> torch.Tensor:
        """What the module reads as the parameter: it has its layout, its mask and its gradients."""
        found = getattr(self.module, self.parameter)
        assert isinstance(found, torch.Tensor)
        return found

    @property
    def weight(self) -> torch.Tensor:
        """The parameter as the forward pass sees it, that is with its mask, detached."""
        return self.own(self.stored.detach())

    def own(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return ``tensor`` with the outputs first as the parameter has it, or the other way."""
        return tensor.T if self.transposed else tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameter, ``(O, I[, kh, kw])`` for a weight."""
        return tuple(self.weight.shape)

    def values(self) -> np.ndarray:
        """Return the weight as float32 or float64; one that is not finite is refused."""
        weight = self.weight.cpu()
        if weight.dtype != torch.float64:
            weight = weight.float()
        if not torch.isfinite(weight).all():
            raise InputError(
                self.name, "the weight holds NaN or infinite values", "finite weights", "retrain it"
            )
        return weight.numpy()

    def alive(self) -> np.ndarray | None:
        """Return which weights were not pruned before (bool), ``None`` if none was."""
        mask = find_mask(self.module, self.parameter)
        return None if mask is None or mask.mask.all() else self.own(mask.mask).cpu().numpy()


class LeftOut(nn.Module):
    """Stands for a layer without a weight that a method could prune, and says why."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


@dataclass(frozen=True)
class Selection:
    """What a method prunes, in network order, and why it leaves other layers out.

    ``layers`` are ranked; ``companions`` are parameters that only follow (the bias and the batch
    norm of a removed filter).
    """

    layers: tuple[PrunableLayer, ...]
    skipped: Mapping[str, str]
    companions: tuple[PrunableLayer, ...] = ()

    def __iter__(self) -> Iterator[PrunableLayer]:
        return iter(self.layers)


def sort_of(module: nn.Module) -> str | None:
    """Return what sort of prunable layer ``module`` is, ``None`` if it is not one."""
    if isinstance(module, nn.Linear) or is_transposed_linear(module):
        return LINEAR
    if isinstance(module, nn.RNNBase):
        return RECURRENT
    if not isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return None
    if module.groups == 1:
        return CONV
    single = module.groups == module.in_channels == module.out_channels
    return DEPTHWISE if single else GROUPED


def is_transposed_linear(module: nn.Module) -> bool:
    """Whether ``module`` is the ``Conv1D`` of transformers, a linear layer with ``(in, out)``."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


def matrices_of(name: str, module: nn.Module) -> list[PrunableLayer]:
    """Return the prunable weights of ``module``; recurrent and attention layers have several."""
    if isinstance(module, nn.RNNBase):
        weights = [n for n in module._flat_weights_names if n.startswith("weight")]
        return [PrunableLayer(name, module, RECURRENT, parameter) for parameter in weights]
    if isinstance(module, nn.MultiheadAttention):
        weights = [n for n in _PROJECTIONS if getattr(module, n) is not None]
        return [PrunableLayer(name, module, LINEAR, parameter) for parameter in weights]
    sort = sort_of(module)
    if sort is None:
        return []
    return [PrunableLayer(name, module, sort, transposed=is_transposed_linear(module))]


def select(
    model: nn.Module,
    include: Sequence[str] = ("*",),
    ignore: Sequence[str] = (),
    sorts: Sequence[str] = MATRIX,
) -> Selection:
    """Choose the layers of ``model`` that a method can prune.

    Parameters
    ----------
    include, ignore
        Globs over fully qualified names. ``ignore`` wins. A glob that matches no prunable layer
        is refused, since it is a misspelling.
    sorts
        The sorts of layer that the method prunes; others are skipped with that reason.

    Raises
    ------
    InputError
        If a glob matches nothing, or nothing is left to prune.
    """
    found = [x for name, module in model.named_modules() for x in matrices_of(name, module)]
    names = {layer.name for layer in found}
    for pattern in (*include, *ignore) if names else ():
        _check_glob(pattern, [*names])
    layers: list[PrunableLayer] = []
    skipped = _other_layers(model, names)
    owner: dict[int, str] = {}
    for layer in found:
        if not any(matches(layer.name, g) for g in include):
            skipped[layer.name] = "not in include"
        elif any(matches(layer.name, g) for g in ignore):
            skipped[layer.name] = "in ignore"
        elif layer.sort not in sorts:
            skipped[layer.name] = f"a {layer.sort}; the method prunes {', '.join(sorts)}"
        elif reason := why_not(layer.module, layer.parameter):
            skipped[layer.label] = reason
        elif (first := owner.setdefault(id(_parameter(layer)), layer.name)) != layer.name:
            skipped[layer.label] = f"shares its weight with {first}"
        else:
            layers.append(layer)
    if not layers:
        raise InputError(
            type(model).__name__,
            f"no layer to prune ({_told(skipped)})",
            f"at least one of: {', '.join(sorts)}",
            "look at include and ignore, and at the reasons",
        )
    return Selection(tuple(layers), {**skipped, **_tied(model, layers, names)})


def _told(skipped: Mapping[str, str], most: int = 3) -> str:
    """Return the reasons of the first layers."""
    first = [f"{name or 'the layer'}: {why}" for name, why in list(skipped.items())[:most]]
    rest = len(skipped) - most
    return "; ".join([*first, f"{rest} more skipped"] if rest > 0 else first) or "it has none"


def _other_layers(model: nn.Module, known: Container[str]) -> dict[str, str]:
    """Return why layers of other sorts, which no method prunes, are left out."""
    found = {}
    for name, module in model.named_modules():
        if name in known:
            continue
        if isinstance(module, LeftOut):
            found[name] = module.reason
        elif isinstance(module, nn.modules.conv._ConvTransposeNd):
            found[name] = "a transposed conv, which no method prunes"
        elif isinstance(module, nn.RNNCellBase):
            found[name] = "a recurrent cell, which no method prunes"
        elif inspect.ismethod(getattr(module, "weight", None)):
            found[name] = "its weight is quantized"
    return found


def _tied(model: nn.Module, layers: list[PrunableLayer], known: set[str]) -> dict[str, str]:
    """Return why modules that are no layers, such as embeddings, keep a weight they share."""
    owner = {id(_parameter(layer)): layer.name for layer in layers}
    why = "shares its weight with {}, but stays dense: a mask belongs to one layer"
    return {
        name: why.format(owner[id(parameter)])
        for name, module in model.named_modules()
        if name not in known and not isinstance(module, parametrize.ParametrizationList)
        for parameter in module._parameters.values()
        if id(parameter) in owner
    }


def _parameter(layer: PrunableLayer) -> nn.Parameter:
    """Return the parameter behind the weight of ``layer``."""
    if find_mask(layer.module, layer.parameter) is not None:
        return original_parameter(layer.module, layer.parameter)
    assert isinstance(layer.stored, nn.Parameter)
    return layer.stored


def _check_glob(pattern: str, names: Sequence[str]) -> None:
    if any(matches(name, pattern) for name in names):
        return
    near = difflib.get_close_matches(pattern, names, n=1, cutoff=0.4)
    raise InputError(
        f"layer glob '{pattern}'",
        "matches no prunable layer",
        "a fully qualified name or a glob over them",
        f"did you mean '{near[0]}'" if near else "",
    )
