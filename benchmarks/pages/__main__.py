"""Write the pages under docs/performance from the JSON files in benchmarks/results.

    python -m benchmarks.pages

Every figure on those pages comes from here; nothing is typed by hand.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.pages import (
    dynamo_pages,
    gpu_pages,
    int8_pages,
    kernel_pages,
    model_pages,
    model_zoo_pages,
    narrow_pages,
    one_shot_pages,
    open_shapes_page,
    plan_pages,
    programs_page,
    real_files_page,
    real_models_page,
    recovery_page,
    trial_pages,
    tuning_pages,
    zoo_pages,
)
from benchmarks.papers import pages as paper_pages

PAGES = Path(__file__).resolve().parents[2] / "docs" / "performance"


def main() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    model_pages.write(PAGES)
    int8_pages.write(PAGES)
    kernel_pages.write(PAGES)
    narrow_pages.write(PAGES)
    zoo_pages.write(PAGES)
    dynamo_pages.write(PAGES)
    model_zoo_pages.write(PAGES)
    tuning_pages.write(PAGES)
    gpu_pages.write(PAGES)
    one_shot_pages.write(PAGES)
    plan_pages.write(PAGES)
    trial_pages.write(PAGES)
    programs_page.write(PAGES)
    real_models_page.write(PAGES)
    recovery_page.write(PAGES)
    real_files_page.write(PAGES)
    open_shapes_page.write(PAGES)
    paper_pages.write(PAGES)


if __name__ == "__main__":
    main()
