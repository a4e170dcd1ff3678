import pickle

import pytest

from tvm_sparse_runtime.errors import RuntimeArtifactError, SparseRuntimeError, TensorError, shown


def test_message_has_all_parts():
    error = RuntimeArtifactError("model.so", "3 bytes", "4 bytes", "export it again")
    assert str(error) == "model.so: 3 bytes; expected 4 bytes; export it again."
    assert (error.where, error.todo) == ("model.so", "export it again")
    assert str(SparseRuntimeError("device", "'tpu'")) == "device: 'tpu'."


def test_tensor_errors_are_value_errors():
    with pytest.raises(ValueError, match="input x: rank 3"):
        raise TensorError("input x", "rank 3")


def test_shown_is_short_and_plain():
    assert shown("\ud800é") == r"'\ud800\xe9'"
    assert len(shown("x" * 1000)) == 60


@pytest.mark.parametrize("kind", [SparseRuntimeError, RuntimeArtifactError, TensorError])
def test_errors_travel_between_processes(kind):
    error = kind("model.so", "3 bytes", "4 bytes", "export it again")
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), str(other), other.todo) == (kind, str(error), "export it again")
