import pytest

from tvm_sparse.base.config import Config
from tvm_sparse.errors import InputError


def test_lists_of_globs_become_tuples_and_configs_are_equal_by_value():
    config = Config(ignore=["head", "stem.*"], force={"fc*": "dense"})
    assert config == Config(ignore=("head", "stem.*"), force={"fc*": "dense"})
    assert config.ignored("stem.0")
    assert config.forced("fc1") == config.forced("head") == "dense"
    assert config.forced("layer") is None


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"measure": "perhaps"}, "Config, measure"),
        ({"ignore": 3}, "Config, ignore"),
        ({"force": ["dense"]}, "Config, force"),
    ],
)
def test_wrong_values_are_named(values, where):
    with pytest.raises(InputError, match=where):
        Config(**values)


def test_unknown_names_are_refused():
    with pytest.raises(TypeError, match="measur"):
        Config(measur=False)


def test_a_glob_alone_is_no_list_of_globs():
    with pytest.raises(InputError, match="ignore"):
        Config(ignore="head")
