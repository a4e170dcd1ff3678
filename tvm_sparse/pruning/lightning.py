"""A callback that prunes while Lightning's ``Trainer`` trains."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from torch import nn

from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.pruning.pruner import Pruner

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_SHARDING = ("DeepSpeedStrategy", "FSDPStrategy", "ModelParallelStrategy")


@cache
def _class(ours: type, package: str) -> type:
    """Return ``ours`` as a class of callbacks of ``package``, whose trainer calls every hook."""
    theirs = importlib.import_module(package).Callback
    return type(ours.__name__, (ours, theirs), {"__doc__": ours.__doc__})


def _package() -> str:
    """Return the name that the user imports Lightning by, else one that is installed."""
    for name in _PACKAGES:
        if name in sys.modules:
            return name
    for name in _PACKAGES:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            return name
    raise InputError("PruningCallback", "lightning is not installed", todo="pip install lightning")


class PruningCallback:
    """A callback of ``lightning`` or ``pytorch_lightning`` that owns a pruner.

    The masks are attached when the trainer sets the module up, before its optimizers and its
    checkpoint. At the start of each epoch the pruner makes a step; the sparsity is logged as
    ``sparsity``. Taylor scores are taken before each step of an optimizer, from all batches that
    were accumulated and without the scale of the loss, where the method needs them. Checkpoints
    hold the pruner's state, and a run continues where it was saved.

    The masks stay attached after ``fit``: :func:`tvm_sparse.compile` takes the module as it is, and
    ``callback.pruner.squash_mask()`` writes the zeros into plain weights.

    Parameters
    ----------
    make
        Makes the pruner of a module:
        ``lambda module: Pruner(module, BalancedPruning(0.9), schedule=Levels([0.75, 0.9]))``, or
        ``load_recipe("recipe.yaml").pruner``.

    Raises
    ------
    InputError
        Neither package is installed.

    Attributes
    ----------
    pruner
        The pruner of the module that is trained; None before ``fit``.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> PruningCallback:
        """Make an instance that is one of the package's callbacks, too."""
        ours: Any = cls  # classes are hashable, which mypy does not see
        return object.__new__(_class(ours, _package()))

    def __init__(self, make: Callable[[nn.Module], Pruner]) -> None:
        self._make, self._epochs = make, 0
        self.pruner: Pruner | None = None

    def setup(self, trainer: Any, pl_module: nn.Module, stage: str) -> None:
        """Attach masks of ones; once for a module.

        Raises
        ------
        UnsupportedError
            Each process of the trainer's strategy has a part of each weight.
        """
        strategies = [base.__name__ for base in type(trainer.strategy).__mro__]
        if sharding := [name for name in strategies if name in _SHARDING]:
            raise UnsupportedError(
                "PruningCallback", f"{sharding[0]} splits weights", "whole weights", "use DDP"
            )
        if self.pruner is None or self.pruner.model is not pl_module:
            self.pruner, self._epochs = self._make(pl_module), 0

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Prune, if the schedule says so; an epoch that is resumed was pruned already."""
        assert self.pruner is not None
        if trainer.current_epoch >= self._epochs:
            self._epochs = trainer.current_epoch + 1
            self.pruner.step()
        if self.pruner.report is not None:
            pl_module.log("sparsity", self.pruner.report.sparsity)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Add Taylor scores, which are finite and unscaled now."""
        assert self.pruner is not None
        if self.pruner.method.gradients:
            self.pruner.accumulate()

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds of this callback."""
        if self.pruner is None:
            return {}
        return {"pruner": self.pruner.state_dict(), "epochs": self._epochs}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        if state_dict:
            assert self.pruner is not None
            self.pruner.load_state_dict(state_dict["pruner"])
            self._epochs = int(state_dict["epochs"])
