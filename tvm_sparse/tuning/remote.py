"""Measure on other machines: TVM's RPC tracker and servers, through MetaSchedule's runner.

Functions are built here and sent as libraries; whichever server the tracker lends loads and runs
them. The runner works in processes of its own, which import this module.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from tvm_sparse.base.extras import require
from tvm_sparse.errors import InputError
from tvm_sparse.tuning.measure import Timing, run, save_expected, upload
from tvm_sparse.tuning.measurer import RUN_SECONDS, Measurer
from tvm_sparse.tuning.pool import Outcome

TRUTH = "truth"
"""Stem of the library whose results the others must give."""

CONNECT_SECONDS = 10.0

ATTEMPTS = 3
"""Tries of a measurement: a server may die, and the tracker then lends another."""


@dataclass(frozen=True)
class Tracker:
    """Where a tracker listens, and which machines to ask it for."""

    host: str
    port: int
    key: str


def parse_tracker(address: str, key: str | None) -> Tracker:
    """Return the tracker of ``host:port``."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InputError("tracker", f"'{address}'", "host:port", "for instance 10.0.0.5:9190")
    if not key:
        raise InputError("tracker", "no key", "the key that the servers were started with")
    return Tracker(host, int(port), key)


class RemoteMeasurer(Measurer):
    """Runs on the machines of a tracker, as many at a time as there are."""

    def __init__(
        self, target: Target, directory: Path, tracker: Tracker, builders: int | None = None
    ) -> None:
        super().__init__(target, directory, builders)
        config = ms.runner.RPCConfig(
            tracker.host, tracker.port, tracker.key, session_timeout_sec=int(RUN_SECONDS)
        )
        servers = _count_servers(tracker, config)
        self._runner = ms.runner.RPCRunner(
            rpc_config=config,
            evaluator_config=ms.runner.EvaluatorConfig(
                number=1, repeat=self.timing.repeat, min_repeat_ms=self.timing.milliseconds
            ),
            f_upload_module=upload_library,
            f_alloc_argument=upload_arguments,
            f_run_evaluator=evaluate,
            max_workers=servers,
        )

    def expect(self, library: str, directory: Path) -> Outcome:
        """Run ``library`` on a server; what it computes becomes the truth here."""
        truth = Path(library)
        return self.run([str(truth.rename(truth.with_stem(TRUTH)))], directory)[0]

    def run(self, libraries: Sequence[str], directory: Path) -> list[Outcome]:
        """Return the seconds of each library, a list for each, in order."""
        outcomes: dict[str, Outcome] = {}
        for _ in range(ATTEMPTS):
            left = [library for library in libraries if not _settled(outcomes.get(library))]
            inputs = [ms.runner.RunnerInput(library, self.device, []) for library in left]
            futures = self._runner.run(inputs)
            results = [future.result() for future in futures]
            outcomes.update(zip(left, map(_outcome, results), strict=True))
            if all(_settled(outcome) for outcome in outcomes.values()):
                break
        return [outcomes[library] for library in libraries]

    def close(self) -> None:
        """End all processes."""
        super().close()
        self._runner.pool.shutdown()


def _count_servers(tracker: Tracker, config: Any) -> int:
    """Return how many machines the tracker has; at least one."""
    require("rpc", "tracker")
    try:
        # TVM's client tries for half a minute and then leaves its socket open.
        socket.create_connection((tracker.host, tracker.port), CONNECT_SECONDS).close()
    except OSError as error:
        where = f"{tracker.host}:{tracker.port}"
        raise InputError("tracker", f"{where} does not answer ({error})") from error
    servers = config.count_num_servers(allow_missing=True)
    if not servers:
        raise InputError(
            "tracker",
            f"no server with key '{tracker.key}'",
            "at least one",
            "start `python -m tvm.exec.rpc_server --host address --tracker host:port --key ...`",
        )
    return int(servers)


def upload_library(session: Any, local_path: str, remote_path: str) -> Any:
    """Load a library on the server; the session remembers it for what comes next."""
    session.tvm_sparse_library = Path(local_path)
    session.upload(local_path, remote_path)
    return session.load_module(remote_path)


def upload_arguments(session: Any, device: Any, _info: Any, _repeat: int) -> list[Any]:
    """Send the arguments that lie next to the library."""
    return [upload(session.tvm_sparse_library.parent, device)]


def evaluate(session: Any, module: Any, device: Any, config: Any, arguments: list[Any]) -> Any:
    """Check and time a library on the server; the truth is only run and its results fetched."""
    library = session.tvm_sparse_library
    if library.stem == TRUTH:
        save_expected(module["main"], arguments[0], library.parent)
        return [1.0]
    timing = Timing(config.repeat, config.min_repeat_ms)
    return run(module, device, arguments[0], library.parent, timing)


def _outcome(result: Any) -> Outcome:
    if result.run_secs is not None:
        return Outcome([float(seconds) for seconds in result.run_secs])
    return Outcome(error=str(result.error_msg).strip().splitlines()[-1])


def _settled(outcome: Outcome | None) -> bool:
    """Whether a try told something about the library, not about the way to a machine."""
    return outcome is not None and (outcome.error is None or "WrongResult" in outcome.error)
