from benchmarks.gpu import metrics

TEXT = """==PROF== Connected
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","fill","gpu__time_duration.sum","ns","100"
"1","main_kernel","gpu__time_duration.sum","ns","1,234"
"1","main_kernel","launch__registers_per_thread","","64"
"""


def test_counters_of_our_kernels():
    expected = {"gpu__time_duration.sum": 1234.0, "launch__registers_per_thread": 64.0}
    assert metrics.parse(TEXT) == {"main_kernel": expected}


def test_main_kernels():
    storages = [kernel.storage for kernel in metrics.main_kernels()]
    assert storages == ["balanced", "balanced", "depthwise_taps"]
