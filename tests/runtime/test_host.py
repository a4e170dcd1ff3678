import os

import pytest

from tvm_sparse_runtime import host


def test_features_are_those_of_every_processor(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags\t\t: fma avx2 sse4_1\n\nflags : avx2 fma\n")
    assert host.cpu_features(str(cpuinfo)) == {"fma", "avx2"}
    arm = tmp_path / "arm"
    arm.write_text("Features\t: fp asimd sve\nCPU part : 0xd40\n")
    assert host.cpu_features(str(arm)) == {"fp", "asimd", "sve"}


@pytest.mark.parametrize("granted", [True, False])
def test_tile_registers_count_where_the_system_grants_them(tmp_path, monkeypatch, granted):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags : fma amx_tile amx_int8\n")
    monkeypatch.setattr(host, "tiles_allowed", lambda: granted)
    tiles = {"amx_tile", "amx_int8"} if granted else set()
    assert host.cpu_features(str(cpuinfo)) == {"fma", *tiles}


def test_no_features_known(tmp_path):
    assert host.cpu_features(str(tmp_path / "none")) == frozenset()
    (tmp_path / "empty").write_text("processor : 0\n")
    assert host.cpu_features(str(tmp_path / "empty")) == frozenset()


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_hyper_threads_count_once(tmp_path, monkeypatch, name):
    for cpu, core in enumerate(["0,2", "1,3", "0,2", "1,3", "4"]):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / name).write_text(core + "\n")
    monkeypatch.setattr(host, "cpu_quota", lambda: 100)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3, 4})
    assert host.physical_cores(str(tmp_path)) == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2})
    assert host.physical_cores(str(tmp_path)) == 1


def test_cores_without_topology_and_with_quota(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(host, "cpu_quota", lambda: 100)
    assert host.physical_cores(str(tmp_path)) == 8
    monkeypatch.setattr(host, "cpu_quota", lambda: 3)
    assert host.physical_cores(str(tmp_path)) == 3


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 1 << 30),
        ({"cpu.max": "nonsense"}, 1 << 30),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1 << 30),
        ({}, 1 << 30),
    ],
)
def test_quota(tmp_path, files, expected):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert host.cpu_quota(str(tmp_path), str(tmp_path / "none")) == expected


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a.slice/b.service\n", {"a.slice/b.service/cpu.max": "150000 100000\n"}, 2),
        ("0::/a.slice/b.service\n", {"a.slice/cpu.max": "100000 100000\n"}, 1),
        (
            "0::/a.slice/b.service\n",
            {"a.slice/b.service/cpu.max": "400000 100000\n", "a.slice/cpu.max": "300000 100000\n"},
            3,
        ),
        ("0::/a.slice\n", {"b.slice/cpu.max": "100000 100000\n"}, 1 << 30),
        ("0::/../outside\n", {"cpu.max": "200000 100000\n"}, 2),
        (
            "5:memory:/m\n4:cpu,cpuacct:/x\n",
            {"cpu/x/cpu.cfs_quota_us": "200000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
            2,
        ),
        ("nonsense\n:\n\n", {}, 1 << 30),
    ],
)
def test_quota_of_the_process_own_group(tmp_path, own, files, expected):
    """A service of systemd has its limit in its slice, not at the root."""
    for name, content in {**files, "own": own}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert host.cpu_quota(str(tmp_path), str(tmp_path / "own")) == expected
