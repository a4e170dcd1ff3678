"""``ts.tune`` for real: a small network, few trials, real processes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

import tvm_sparse as ts
from tests.tuning.test_recorded import CONFIG, X, network
from tvm_sparse.errors import InputError
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.tuner import Settings

SMALL = Settings(batch=4, population=8, rounds=2, finalists=1)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A session of a few trials, and what it told."""
    path, seen = tmp_path_factory.mktemp("tuning"), []

    def progress(session):
        seen.append((session.phase, session.current, session.trials))

    report = ts.tune(
        network(0),
        (X,),
        trials=10,
        database=path,
        config=CONFIG,
        settings=SMALL,
        progress=progress,
    )
    return report, Database(path), seen


def test_the_report_has_every_layer(tuned):
    report, database, _ = tuned
    assert {layer for task in report for layer in task.layers} == {"0", "2"}
    assert sum(task.trials for task in report) == report.trials == 10
    assert all(task.best_us <= task.default_us for task in report)
    assert all(len(task.curve) == task.trials for task in report)
    assert not report.interrupted
    assert Path(report.database) == database.path
    json.dumps(report.to_json())


def test_every_trial_is_recorded_with_its_time_or_error(tuned):
    report, database, _ = tuned
    trials = [r for r in database if not r.confirmed]
    assert len(trials) == report.trials
    assert all((r.ratio is None) == (r.error is not None) for r in trials)
    assert {r.target for r in trials} == {trials[0].target}


def test_progress_goes_through_the_phases(tuned):
    phases = list(dict.fromkeys(phase for phase, _, _ in tuned[2]))
    assert phases == ["preparing", "searching", "confirming", "done"]
    counts = [count for _, _, count in tuned[2]]
    assert counts == sorted(counts)


def test_the_same_session_again_only_goes_on(tuned):
    _, database, _ = tuned
    before = [r.model_dump_json() for r in database]
    again = ts.tune(
        network(1), (X,), trials=10, database=database.path, config=CONFIG, settings=SMALL
    )
    database.refresh()
    assert again.trials == 10
    assert [r.model_dump_json() for r in database if not r.confirmed] == [
        text for text in before if '"confirmed":false' in text
    ]


def test_an_interrupt_ends_cleanly_and_keeps_everything(tmp_path):
    def progress(session):
        if session.phase == "searching" and session.trials >= 6:
            signal.raise_signal(signal.SIGINT)

    options = {"database": tmp_path, "config": CONFIG, "settings": SMALL}
    report = ts.tune(network(0), (X,), trials=1000, progress=progress, **options)
    assert report.interrupted
    assert 6 <= report.trials == len(Database(tmp_path)) < 20


def test_compiling_afterwards_gives_the_same_results(tuned):
    _, database, _ = tuned
    library = ts.compile(network(2), (X,), config=CONFIG, database=database.path)
    assert (library(X).numpy() == network(2)(X).detach().numpy()).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"target": "cpu:haswell"}, "give a tracker"),
        ({"tracker": "here"}, "host:port"),
        ({"tracker": "127.0.0.1:1"}, "no key"),
        ({"tracker": "127.0.0.1:1", "key": "k"}, "does not answer"),
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path, options, word):
    with pytest.raises(InputError, match=word):
        ts.tune(network(0), (X,), database=tmp_path, config=CONFIG, **options)


def test_the_old_name_of_an_option_warns():
    with pytest.warns(FutureWarning, match="formats="), pytest.raises(InputError):
        ts.tune(network(0), (X,), target="cpu:none", storages=True)
