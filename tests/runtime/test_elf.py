import random

import pytest

from tests.runtime import elves
from tvm_sparse_runtime import elf, files
from tvm_sparse_runtime.errors import RuntimeArtifactError

SOUND = elves.library("ab" * 32, b"0123456789")
TABLE = len(SOUND) - 4 * 64
"""Where the table of sections begins."""
HEADERS = [*range(120), *range(TABLE, len(SOUND))]


@pytest.fixture
def opened(tmp_path):
    def read(content):
        (tmp_path / "a.so").write_bytes(content)
        with files.opened(tmp_path / "a.so") as descriptor:
            library = elf.SharedObject(descriptor, "a.so")
            return library.signature(), library.weights()

    return read


def patched(position, content):
    return SOUND[:position] + content + SOUND[position + len(content) :]


def test_sound(opened):
    signature, (begin, end) = opened(SOUND)
    assert signature == "ab" * 32
    assert SOUND[begin:end] == b"0123456789"


@pytest.mark.parametrize(
    ("position", "content", "message"),
    [
        (0, b"MZ", "no shared library"),
        (4, b"\1", "no shared library"),
        (5, b"\2", "no shared library"),
        (16, b"\2", "no shared library"),
        (18, b"\xf7\0", "machine 247"),
        (32, b"\xff" * 8, "a part that ends at byte"),
        (40, b"\xff" * 8, "a part that ends at byte"),
        (54, b"\1", "unknown size"),
        (56, b"\xff\xff", "a part that ends at byte"),
        (56, b"\0\0", "no segments"),
        (62, b"\4", "no names of sections|no segments or no names"),
        (64 + 8, b"\xff" * 7, "a part that ends at byte"),
        (64 + 32, b"\xff" * 8, "larger than its memory"),
        (TABLE + 128 + 24, b"\xff" * 8, "a part that ends at byte"),
        (TABLE + 128, b"\0", "no weight section"),
    ],
)
def test_headers_that_lie(opened, position, content, message):
    with pytest.raises(RuntimeArtifactError, match=message):
        opened(patched(position, content))


def test_library_without_a_signature(opened):
    assert opened(patched(TABLE + 64, b"\0"))[0] == ""


def test_nothing_is_read_beyond_the_file(opened):
    """Whatever the headers say, the sections that are found lie inside, or there is one error."""
    generator, refused = random.Random(0), 0
    for _ in range(3000):
        content = bytearray(SOUND)
        for _ in range(generator.randint(1, 4)):
            place = generator.choice(HEADERS)
            content[place] = generator.randrange(256)
        cut = generator.choice([len(content)] * 3 + [generator.randrange(len(content))])
        try:
            _, (begin, end) = opened(bytes(content[:cut]))
        except RuntimeArtifactError:
            refused += 1
        else:
            assert begin <= end
    assert refused > 1000
