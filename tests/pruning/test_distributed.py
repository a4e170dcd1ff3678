import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import distributed

from tvm_sparse.pruning.distributed import broadcast_masks, sum_importance

PROGRAM = textwrap.dedent(
    """
    import os
    import sys

    import torch
    from torch import distributed, nn

    from tvm_sparse.patterns.block import Block
    from tvm_sparse.pruning import Levels, PatternPruning, Pruner

    rank = int(sys.argv[1])
    store = f"file://{sys.argv[2]}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
    method = PatternPruning(Block(2, 2), 0.75, criterion="taylor")
    pruner = Pruner(model, method, schedule=Levels([0.5, 0.75]))
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)  # each process sees other data
    for _ in range(2):
        for _ in range(2):
            optimizer.zero_grad()
            (parallel(torch.rand(4, 16)) ** 2).sum().backward()
            pruner.accumulate()
            optimizer.step()
        if rank == 1:  # a process that went astray has to come back
            for mask in pruner._importance.values():
                mask.uniform_(0, 1e-3)
        pruner.step()
        parallel(torch.rand(4, 16))
    print(pruner.report.sparsity, {k: m.int().flatten().tolist() for k, m in pruner.masks.items()})
    sys.stdout.flush()
    distributed.barrier()
    # gloo's threads may outlive the interpreter, and C++ ends a process whose thread nobody joined
    os._exit(0)
    """
)


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="torch was built without gloo")
def test_all_processes_use_the_same_masks(tmp_path):
    arguments = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [*arguments, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    results = [process.communicate(timeout=120) for process in started]
    for process, (_, errors) in zip(started, results, strict=True):
        assert process.returncode == 0, errors
    outputs = [output for output, _ in results]
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith("0.75 ")


def test_alone_nothing_happens():
    masks = {"a": torch.tensor([True, False])}
    broadcast_masks(masks)
    sum_importance({"a": torch.ones(2)})
    assert masks["a"].tolist() == [True, False]
