import sys

from benchmarks.gpu.queue import supervise
from benchmarks.gpu.queue.supervise import going_on

CODE = """
import os, signal, subprocess, sys
subprocess.Popen(["sleep", "600"])  # a worker that outlives its parent
print("begun", *sys.argv[1:], file=sys.stderr, flush=True)
place = sys.argv[sys.argv.index("--out") + 1] + "/twice"
if not os.path.exists(place):
    open(place, "w").close()
    os.kill(os.getpid(), signal.SIGSEGV)
sys.exit(1)
"""


def test_options_of_a_process_that_goes_on():
    first = ["--minutes", "25", "--steps", "flush", "mends", "--session", "x", "--stand-in"]
    expected = ["--steps", "flush", "mends", "--stand-in", "--minutes", "2.500", "--session", "s"]
    assert going_on(first, 2.5, "s") == expected


def test_a_signal_costs_one_process(tmp_path, monkeypatch, capsys):
    """The second one ends by itself; its status is the queue's, and both are in the log."""
    script = tmp_path / "queue.py"
    script.write_text(CODE)
    popen = supervise.subprocess.Popen

    def start(command, **options):
        assert command[:3] == [sys.executable, "-m", "benchmarks.gpu.queue"]
        return popen([sys.executable, str(script), *command[3:]], **options)

    monkeypatch.setattr(supervise.subprocess, "Popen", start)
    assert supervise.supervise(["--out", str(tmp_path)], tmp_path, 1.0) == 1
    log = (tmp_path / "log.txt").read_text()
    assert log.count("begun") == 2
    assert "signal 11 ended the process: on in a fresh one" in log
    assert capsys.readouterr().err == log


def test_without_time_no_process_follows(tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "_logged", lambda arguments, log: -9)
    assert supervise.supervise([], tmp_path, 0.05) == 3
