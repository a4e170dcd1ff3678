"""Write the pages of the papers' results anew from their JSON files, and an overview of them.

Results are read only: a page can be reworded without running its benchmark again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.common import RESULTS
from benchmarks.papers import (
    balanced_gemm,
    balanced_layers,
    deprune_imbalance,
    deprune_pages,
    deprune_steps,
    digits_accuracy,
    joint_gemm,
    joint_sparsity,
)
from benchmarks.papers.output import earlier, render

BALANCED = "Yao et al., Balanced Sparsity for Efficient DNN Inference on GPU (AAAI 2019)"
DEPRUNE = "Park et al., DEPrune (NeurIPS 2024)"
JOINT = "Guo et al., Joint Sparsity with Mixed Granularity"
OWN = "Accuracy on data that fits here"


@dataclass(frozen=True)
class Page:
    """A result: ``markdown(content)`` is its page, ``finding(content)`` a sentence or two."""

    paper: str
    name: str
    markdown: Callable[[dict[str, Any]], str]
    draw: Callable[[dict[str, Any], Any], None]
    finding: Callable[[dict[str, Any]], str]
    size: tuple[float, float] = (11, 4.5)


PAGES = tuple(
    Page(paper, module.NAME, module.markdown, module.draw, module.finding, size)
    for paper, module, size in (
        (BALANCED, balanced_gemm, (11, 4.5)),
        (BALANCED, balanced_layers, (11, 5)),
        (DEPRUNE, deprune_pages, (11, 4.5)),
        (DEPRUNE, deprune_steps, (7, 4)),
        (DEPRUNE, deprune_imbalance, (11, 4)),
        (JOINT, joint_sparsity, (11, 4.5)),
        (JOINT, joint_gemm, (11, 4.5)),
        (OWN, digits_accuracy, (11, 4.5)),
    )
)


def write(folder: Path) -> None:
    """Render every result that exists, and write ``papers.md`` into ``folder``."""
    found = [(page, content) for page in PAGES if (content := earlier(page.name))]
    for page, content in found:
        render(
            page.name, page.markdown(content), lambda f, p=page, c=content: p.draw(c, f), page.size
        )
    (folder / "papers.md").write_text(overview(found, folder))


def overview(found: list[tuple[Page, dict[str, Any]]], folder: Path) -> str:
    """Return the overview: what was reproduced, what came out, and where the figures are."""
    results = Path(os.path.relpath(RESULTS / "papers", folder)).as_posix()
    lines = [
        "# The papers' results, reproduced",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/papers/*.json`; every page",
        "names the script that measures it (`python -m benchmarks.papers.<name>`). The papers used",
        "GPUs, so ratios and orders compare, times do not. All times here are of one CPU thread.",
        "",
    ]
    for paper in dict.fromkeys(page.paper for page, _ in found):
        lines += [f"## {paper}", ""]
        for page, content in found:
            if page.paper == paper:
                title = page.markdown(content).split("\n", 1)[0].removeprefix("# ")
                lines += [f"* [{title}]({results}/{page.name}.md). {page.finding(content)}"]
        lines.append("")
    lines += [
        "## Not reproduced here",
        "",
        "* Accuracy on ImageNet, CIFAR, PTB and TIMIT: the data is not part of this repository.",
        "  `benchmarks.papers.joint_accuracy` and `benchmarks.papers.deprune_accuracy` train and",
        "  prune as the papers say where a user has it.",
        "* Times on a GPU: none was measured for these tables.",
    ]
    return "\n".join(lines) + "\n"
