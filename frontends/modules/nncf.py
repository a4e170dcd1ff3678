"""Models that nncf has pruned: it multiplies weights with masks by hooks of its own."""

from __future__ import annotations

import sys

from torch import nn


def without_hooks(module: nn.Module) -> nn.Module:
    """Return ``module`` with nncf's masks in its weights; itself if it has no hooks of nncf."""
    nncf = sys.modules.get("nncf")
    if nncf is None or "__nncf_hooks" not in module._modules:
        return module
    stripped: nn.Module = nncf.strip(module, strip_format=nncf.StripFormat.IN_PLACE)
    return stripped
