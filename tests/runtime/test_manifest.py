import hashlib
import json

import pytest

from tests.runtime import manifests
from tvm_sparse_runtime.manifest import Weight, checksum, library_name


def test_document_is_json_with_its_own_checksum():
    body = json.loads(manifests.manifest().to_bytes())
    found = body.pop("checksum")
    assert found == checksum(body) == checksum(dict(reversed(body.items())))
    assert checksum({**body, "threads": 3}) != found


def test_what_is_not_json_is_refused():
    with pytest.raises(ValueError, match="JSON compliant"):
        manifests.manifest(decisions=({"us": float("inf")},)).to_bytes()


def test_libraries_are_named_after_their_content():
    digest = hashlib.sha256(b"").hexdigest()
    assert library_name(digest) == "model-e3b0c44298fc1c14.so"


def test_weight_bytes():
    assert Weight("w", "float16", (3, 5), 0).nbytes == 30
