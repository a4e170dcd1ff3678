"""Pages from the templates of this folder."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import jinja2


def page(template: str, **values: Any) -> str:
    """Return ``template`` filled in with ``values`` and this package's version, all escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tvm_sparse.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(version=version("tvm-sparse"), **values)
