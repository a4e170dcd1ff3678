import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.tables import LOSSES, tables
from tvm_sparse.planning import tables as module
from tvm_sparse.planning.tables import Tables, keep, known


def test_tables_survive_json():
    made = tables()
    again = Tables.from_json(json.loads(json.dumps(made.to_json())))
    assert again.to_json() == made.to_json()
    np.testing.assert_array_equal(again.losses, LOSSES)


def test_tables_are_kept_and_damage_makes_them_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "cache_directory", lambda: tmp_path)
    assert known("key") is None
    keep("key", tables())
    assert known("key").to_json() == tables().to_json()
    path = tmp_path / "plans" / "key.json"
    for damage in ("", "[]", "{}", path.read_text()[:-9], path.read_text().replace("0.05", '"x"')):
        path.write_text(damage)
        assert known("key") is None
    assert [p.name for p in path.parent.iterdir()] == ["key.json"]


def test_without_a_place_to_write_nothing_is_kept(tmp_path, monkeypatch):
    (tmp_path / "plans").write_text("a file")
    monkeypatch.setattr(module, "cache_directory", lambda: tmp_path)
    keep("key", tables())
    assert known("key") is None


def test_drops_are_read_between_networks_that_ran():
    made = tables()
    assert made.drop(0.0) == 0.0
    assert made.drop(0.02) == pytest.approx(0.03)
    assert made.drop(0.03) == pytest.approx(0.045)
    assert made.drop(10.0) == 1.0


@given(st.floats(0.001, 0.149))
def test_the_loss_of_a_drop_is_the_inverse(drop):
    made = tables()
    assert made.drop(made.most_loss(drop)) == pytest.approx(drop)


def test_of_several_losses_with_one_drop_the_greatest_counts():
    made = tables()
    assert made.most_loss(0.5) == float("inf")
    assert made.most_loss(-0.1) == -1.0
    assert made.most_loss(0.15) == pytest.approx(0.08)
