from benchmarks.gpu.queue import again
from benchmarks.gpu.queue.step import Plan
from benchmarks.harness.common import load


def test_every_marked_case_is_measured_again_blocks_first():
    found = again.contaminated(Plan())
    expected = {
        (part, row["case"])
        for part in again.PARTS
        for row in load(f"gpu_{part}").get("rows", [])
        if "contaminated" in row
    }
    assert {(part, case.name) for part, case in found} == expected
    blocks = [case.pattern.startswith("block") for _, case in found]
    assert blocks == sorted(blocks, reverse=True)
