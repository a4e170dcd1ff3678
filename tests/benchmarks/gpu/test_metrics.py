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
    formats = [kernel.format for kernel in metrics.main_kernels()]
    found = ["balanced"] * 3 + ["block"] * 2 + ["dense", "two_four", "depthwise_taps"]
    assert formats == found
    assert len({kernel.name for kernel in metrics.main_kernels()}) == len(formats)


def test_what_is_not_counted_is_left_out():
    assert metrics.parse(TEXT.replace("1,234", "n/a"))["main_kernel"] == {
        "launch__registers_per_thread": 64.0
    }
    assert metrics.parse("==ERROR== Failed to find metric") == {}
