import os
import stat

import pytest

from tvm_sparse.cli.outputs import check_file, whole
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


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "weights.bin"
    with whole(path) as temporary:
        temporary.write_text("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert stat.S_IMODE(path.stat().st_mode) & 0o400

    def interrupted():
        with whole(path) as temporary:
            temporary.write_text("a part")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "all of it"
    assert [p.name for p in tmp_path.iterdir()] == ["weights.bin"]
