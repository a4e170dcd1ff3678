"""Tune the papers' shapes for a GPU that is not here: counted and modelled, never measured.

    python -m benchmarks.gpu.modelled --trials 16 "CTC-TIMIT gates"    # cases by their names' begin

Each case is saved when it is done and left out by the next call.
"""

from __future__ import annotations

import argparse

from benchmarks.gpu import tune
from benchmarks.gpu.cases import papers
from benchmarks.harness.common import environment, load, save
from tvm_sparse.emulation.measurer import BLOCKS, ModelledMeasurer
from tvm_sparse.tuning.tuner import Settings

NAME, TARGET = "gpu_modelled", "cuda:sm_90"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="how names of cases begin; all without any")
    parser.add_argument("--trials", type=int, default=16, help="schedules of each case")
    arguments = parser.parse_args()
    names = tuple(arguments.names) or ("",)
    rows = (load(NAME) or {"rows": []})["rows"]
    cases = [case for case in papers() if case.name.startswith(names)]
    settings = Settings(trials=arguments.trials, batch=8, population=32)
    found = tune.rows(
        {row["case"] for row in rows},
        TARGET,
        deadline=float("inf"),
        workers=1,
        cases=cases,
        measure=ModelledMeasurer,
        settings=settings,
    )
    for row in found:
        rows.append(row)
        print(row, flush=True)
        content = {"environment": environment(1), "target": TARGET, "blocks": BLOCKS, "rows": rows}
        save(NAME, content)


if __name__ == "__main__":
    main()
