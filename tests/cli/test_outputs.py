import os

import pytest

from tvm_sparse.cli.outputs import check_file
from tvm_sparse.errors import InputError


def test_places_that_cannot_be_written_are_refused(tmp_path):
    check_file(None)
    check_file(tmp_path / "new.html")
    with pytest.raises(InputError, match="is a directory"):
        check_file(tmp_path)
    with pytest.raises(InputError, match="there is no directory"):
        check_file(tmp_path / "missing" / "new.html")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="may not be written"):
        check_file(tmp_path / "new.html")
