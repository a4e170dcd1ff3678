"""What every test gets: a calm environment, fixed seeds, and no slow tests unless asked for."""

from __future__ import annotations

import gc
import os
import random
import sys
import zlib
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

# Before the first import of tvm_ffi, tvm or torch, here and in every process a test starts.
os.environ["TVM_FFI_DISABLE_TORCH_C_DLPACK"] = "1"
os.environ["TVM_BIND_THREADS"] = "0"
os.environ.setdefault("TVM_NUM_THREADS", "2")
os.environ.setdefault("OMP_NUM_THREADS", "2")

import hypothesis
import numpy as np
import pytest

if TYPE_CHECKING:
    from tvm_sparse.emulation.process import Emulator

# Machines differ in speed and CI must not flicker: no deadline, the same examples every time.
hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, max_examples=50
)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Let the collector of garbage pass over what imports made: a tenth of the time was its."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], 30)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out unless the command line chooses tests by marker or by name."""
    for cases in _grids(items).values():
        for item in cases[-(-len(cases) // _one_in(cases[0])) :]:
            item.add_marker("slow")
    chosen = any("::" in argument for argument in config.args)
    if config.option.markexpr or config.option.keyword or chosen:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def _grids(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """Give the cases of each test marked ``grid``, in an order that mixes their parameters."""
    found: dict[str, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: zlib.crc32(item.name.encode())):
        if item.get_closest_marker("grid"):
            found.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return found


def _one_in(item: pytest.Item) -> int:
    mark = item.get_closest_marker("grid")
    return int(mark.args[0]) if mark and mark.args else 5


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, by name, what needs CPU features or a GPU that this machine lacks."""
    if "tvm" in sys.modules:
        from tests.llvm_level import set_level

        set_level(item)
    wanted = {feature for mark in item.iter_markers("isa") for feature in mark.args}
    if wanted:
        from tests.kernels import host
        from tvm_sparse.machine.registry import features_of

        if missing := wanted - features_of(host()):
            pytest.skip(f"the CPU has no {', '.join(sorted(missing))}")
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no NVIDIA GPU")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep times that tests measure out of the user's cache, and the user's out of tests."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _seeds() -> None:
    """Seed the global generators; torch's only where something imported it already."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (libraries under test use the global generator)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(autouse=True)
def _well_formed() -> Iterator[None]:
    """Check each module that a pass makes; only where something imported TVM already."""
    if "tvm" not in sys.modules:
        yield
        return
    from tvm.ir.transform import PassContext

    from tests.well_formed import WellFormed

    with PassContext(instruments=[WellFormed()]):
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_chip() -> Iterator[None]:
    """Let the cost model choose alike on every chip."""
    from tvm_sparse.machine import fitted

    with pytest.MonkeyPatch.context() as patch:
        found = fitted.machine_of
        patch.setattr(fitted, "machine_of", lambda target: replace(found(target), chips=()))
        yield


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulator]:
    """A process whose CUDA driver executes PTX on this CPU."""
    from tvm_sparse.base.targets import parse_target
    from tvm_sparse.emulation.process import Emulator

    with Emulator(parse_target("cuda:sm_90").target) as found:
        yield found
