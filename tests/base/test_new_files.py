import stat

import pytest

from tvm_sparse.base.new_files import whole


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
