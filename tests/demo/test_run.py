"""The demonstration itself, shortened, and what it refuses."""

import json
from functools import partial

import numpy as np
import pytest

from tvm_sparse.comparison.latency import race
from tvm_sparse.demo import digits
from tvm_sparse.demo import run as demo
from tvm_sparse.errors import SparseError


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    told = []
    output = tmp_path_factory.mktemp("demo") / "digits.tvms"
    small = partial(digits.build_model, (16, 32, 64, 64), (512, 256))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "build_model", small)
        patch.setattr(demo, "race", partial(race, rounds=2, calls=3))
        found = demo.run(output, epochs=3, fine_tuning=1, progress=lambda *what: told.append(what))
    return found, output, told


def test_both_levels_are_compiled_sparse(result):
    found, _, _ = result
    kinds = [(level.wanted, level.numbers) for level in found.levels]
    assert kinds == [(0.75, "float32"), (0.9, "float32"), (0.9, "int8")]
    for level in found.levels:
        assert level.sparsity >= level.wanted - 1e-6
        assert level.max_abs_error < (1e-3 if level.numbers == "float32" else 1)
        assert level.images == 360
        assert {"sparse", "dense", "pytorch"} == set(level.latency)
        chosen = {d.layer: d.chosen for d in level.decisions}
        assert "balanced" in chosen.values(), chosen
        assert all(d.reason for d in level.decisions)


def test_accuracy_is_that_of_pytorch(result):
    for level in result[0].levels[:2]:
        changed = level.images - level.agreeing
        difference = abs(level.accuracy["compiled"] - level.accuracy["pruned"])
        assert difference <= changed / level.images + 1e-9


def test_bytes_keep_the_accuracy_and_are_smaller(result):
    *_, floats, in_bytes = result[0].levels
    assert abs(in_bytes.accuracy["compiled"] - floats.accuracy["compiled"]) <= 0.01
    assert in_bytes.agreeing >= 0.99 * in_bytes.images
    assert result[0].size["int8"] < result[0].size["sparse"]


def test_the_artifact_is_smaller_and_stands_alone(result):
    found, output, _ = result
    assert (output / "manifest.json").is_file()
    assert found.size["sparse"] < found.size["dense"]
    assert found.fresh["torch"] is False
    assert found.fresh["compiler"] is False


def test_the_result_is_plain_json(result):
    record = json.loads(json.dumps(result[0].to_json()))
    assert record["levels"][1]["speedup"] == pytest.approx(result[0].levels[1].speedup)
    assert record["levels"][1]["decisions"][0]["layer"]
    assert record["environment"]["versions"]["torch"]


def test_every_task_reports_its_end(result):
    last = {what: (done, total) for what, done, total in result[2]}
    assert last
    assert all(done == total for done, total in last.values()), last


def test_a_difference_is_an_error():
    ones = np.ones((2, 3), np.float32)
    assert demo.require_same(ones, ones, "a", "b") == 0
    assert demo.require_same(ones + 1e-5, ones, "a", "b") == pytest.approx(1e-5, rel=0.1)
    for wrong in (ones + 1e-2, ones * np.nan):
        with pytest.raises(SparseError, match=r"a: differs from b"):
            demo.require_same(wrong, ones, "a", "b")


def test_a_fresh_process_that_fails_says_why(tmp_path):
    with pytest.raises(SparseError, match=r"fresh process: failed .*missing\.tvms"):
        demo.load_afresh(tmp_path / "missing.tvms", np.zeros((1, 1, 8, 8), np.float32), tmp_path)
