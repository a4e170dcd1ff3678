"""A method for each layer: what a plan says."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.layers import PrunableLayer, Selection, select
from tvm_sparse.pruning.methods.base import Importance, Method, Proposal


@dataclass(frozen=True)
class LayerPruning(Method):
    """Prune each layer by a method of its own; layers without one stay dense.

    Parameters
    ----------
    layers
        The method of a layer by the name of its parameter (``"encoder.0.weight"``): one that
        decides for each layer by itself.

    Raises
    ------
    InputError
        A method decides for several layers at once.
    """

    layers: Mapping[str, Method]

    def __post_init__(self) -> None:
        """Refuse methods that need all layers at once."""
        for name, method in self.layers.items():
            if not method.local:
                raise InputError(
                    f"layers, {name}",
                    f"'{method.describe()}' does not prune each layer by itself",
                    "balanced, n_m, block, joint or unstructured with a threshold a layer",
                )

    @property
    def gradients(self) -> bool:
        """Whether one of the methods needs gradients."""
        return any(method.gradients for method in self.layers.values())

    @property
    def local(self) -> bool:
        """Every layer is masked by itself."""
        return True

    def of(self, layer: PrunableLayer) -> Method:
        """Return the method of ``layer``."""
        return self.layers[layer.key]

    def select(self, model: nn.Module, include: Sequence[str], ignore: Sequence[str]) -> Selection:
        """Choose the layers that have a method; a name that the model lacks is refused."""
        sorts = tuple(dict.fromkeys(sort for m in self.layers.values() for sort in m.sorts))
        whole = select(model, include, ignore, sorts)
        keys = {layer.key: layer for layer in whole}
        for name in self.layers:
            module = name.rpartition(".")[0]
            if not {name, module} & {*keys, *whole.skipped}:
                near = difflib.get_close_matches(name, keys, n=1, cutoff=0.4)
                raise InputError(
                    f"layers, {name}",
                    "the model has no such weight to prune",
                    "names like '" + next(iter(keys), "encoder.0.weight") + "'",
                    f"did you mean '{near[0]}'" if near else "",
                )
        without = {x.label: "no method for it" for x in whole if x.key not in self.layers}
        layers = tuple(layer for layer in whole if layer.key in self.layers)
        return Selection(layers, {**whole.skipped, **without})

    def propose(
        self, selection: Selection, due: float, importance: Importance
    ) -> dict[str, Proposal]:
        """Return the mask that each layer's own method wants."""
        found: dict[str, Proposal] = {}
        for layer in selection:
            alone = replace(selection, layers=(layer,))
            found |= self.of(layer).propose(alone, due, importance)
        return found

    def describe(self) -> str:
        """Return how many layers have a method."""
        return f"a method for each of {len(self.layers)} layers"
