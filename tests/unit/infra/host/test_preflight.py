"""Each thing that a host may lack is found, said, and has a remedy."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.infra.host import network, preflight
from harness.infra.host.preflight import Requirement, advise_load
from harness.pressure import Pressure


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))  # noqa: S104 - a listener on all addresses is what is tested
        listener.listen(1)
        yield listener.getsockname()[1]


def test_no_root_is_said_with_the_way_to_become_it() -> None:
    (finding,) = preflight.check_root(1000)
    assert "user 1000" in finding.what
    assert "sudo" in finding.remedy
    assert preflight.check_root(0) == []


def test_an_old_python_and_a_foreign_system_are_refused() -> None:
    seen = [f.what for f in preflight.check_python((3, 10), "Darwin")]
    assert seen == ["this is Darwin", "this is Python 3.10"]
    assert preflight.check_python((3, 11), "Linux") == []


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Requirement("no-such-program", "it is tested", ("no-such-program",), "apt-get install --yes no-such")
    present = Requirement("sh", "everything", ("sh", "-c", "exit 0"), "apt-get install --yes dash")
    monkeypatch.setattr(preflight, "PROGRAMS", (present, absent))
    (finding,) = preflight.check_programs(needs_build=False)
    assert finding.what == "no no-such-program"
    assert finding.remedy == "apt-get install --yes no-such"


def test_kernel_features_are_looked_at_once_the_programs_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Requirement("overlayfs in the kernel", "containers use it", ("sh", "-c", "exit 1"), "modprobe overlay")
    monkeypatch.setattr(preflight, "PROGRAMS", ())
    monkeypatch.setattr(preflight, "KERNEL", (broken,))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert [f.remedy for f in preflight.check_programs(needs_build=False)] == ["modprobe overlay"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert preflight.check_programs(needs_build=False) == []


def test_a_taken_port_is_said_with_who_has_it(taken: int) -> None:
    (finding,) = preflight.check_ports({"mirror": (taken,)})
    assert f"port {taken} is in use by" in finding.what
    assert f"(pid {os.getpid()})" in finding.what
    assert finding.why == "mirror listens on it"
    assert not preflight.port_is_free("127.0.0.1", taken)


def test_a_port_taken_on_another_address_is_free_here() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        assert preflight.check_ports({"mirror": (listener.getsockname()[1],)}) == []


def test_a_full_disk_is_measured_where_the_folder_will_be(tmp_path: Path) -> None:
    (finding,) = preflight.check_disk(tmp_path / "not" / "yet", 6, "disks lie there", free_bytes=2**30)
    assert finding.what == f"1.0 GiB are free below {tmp_path}"
    assert "6 GiB are needed: disks lie there" in finding.why
    assert "XDG_STATE_HOME" in finding.remedy
    assert preflight.check_disk(tmp_path, 6, "disks lie there", free_bytes=6 * 2**30) == []


def test_the_largest_cells_disks_have_to_fit(tmp_path: Path) -> None:
    (finding,) = preflight.check_disks(tmp_path, 5, free_bytes=12 * 2**30)
    assert "12.5 GiB are needed: the disks of 5 machines" in finding.why
    assert preflight.check_disks(tmp_path, 5, free_bytes=13 * 2**30) == []


def test_too_little_memory_says_how_much_there_is(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       4096000 kB\nMemAvailable:   1048576 kB\n", encoding="utf-8")
    (finding,) = preflight.check_memory(1536, meminfo)
    assert finding.what == "1024 MiB of memory are available"
    assert "1536 MiB" in finding.why
    assert preflight.check_memory(1024, meminfo) == []


def test_the_machine_that_runs_pods_is_counted_and_named(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       4096000 kB\nMemAvailable:   2097152 kB\n", encoding="utf-8")
    (finding,) = preflight.check_memory(1024, meminfo, pods_mib=1536)
    assert finding.why == "2560 MiB are needed, 1536 of them for the machine that runs pods"
    assert preflight.check_memory(512, meminfo, pods_mib=1536) == []


def test_that_there_is_room_without_pods_only_is_advice(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       4096000 kB\nMemAvailable:   2097152 kB\n", encoding="utf-8")
    (finding,) = preflight.advise_pods(1024, 1536, meminfo)
    assert not finding.fatal
    assert finding.what == "2048 MiB of memory are available; with pods 2560 MiB are needed"
    assert "a machine of 1536 MiB that runs pods" in finding.why
    assert preflight.advise_pods(512, 1536, meminfo) == []
    assert preflight.advise_pods(4096, 1536, meminfo) == [], "that it is too little without pods is said already"


def test_few_inotify_instances_are_advice_only(tmp_path: Path) -> None:
    setting = tmp_path / "max_user_instances"
    setting.write_text("128\n", encoding="utf-8")
    (finding,) = preflight.check_inotify(folder=tmp_path)
    assert not finding.fatal
    setting.write_text("8192\n", encoding="utf-8")
    assert preflight.check_inotify(folder=tmp_path) == []


def test_everything_is_looked_at_before_anything_is_said(
    taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(network, "PORTS", {"mirror": (taken,)})
    found = preflight.check_host(
        programs=["mirror"], memory_mib=2**40, state=tmp_path, cache=tmp_path, needs_build=False
    )
    seen = " / ".join(f.what for f in found if f.fatal)
    assert "not root" in seen
    assert f"port {taken}" in seen
    assert "MiB of memory" in seen


@pytest.mark.parametrize(
    ("load", "cores", "said"),
    [
        (0.0, 2, None),
        (3.9, 2, None),
        (4.0, 2, "--timeout-scale 2"),
        (20.0, 2, "--timeout-scale 10"),
        (21.0, 2, "--timeout-scale 11"),
        (7.0, 1, "--timeout-scale 7"),
        (900.0, 2, "--timeout-scale 100"),
    ],
)
def test_a_busy_host_is_told_with_the_scale_that_was_measured(load: float, cores: int, said: str | None) -> None:
    findings = advise_load(Pressure("this host", cores, (load, 0.0, 0.0), {}))
    assert [f.fatal for f in findings] == ([] if said is None else [False])
    if said is not None:
        assert findings[0].remedy.endswith(f"run with {said}")
        assert f"load {load:.0f} on {cores} core" in findings[0].what


@pytest.mark.parametrize(("limit", "enough"), [(12, False), (63, False), (64, True), (1024, True), (-1, True)])
def test_too_few_open_files_are_not_told_as_missing_programs(
    monkeypatch: pytest.MonkeyPatch, limit: int, enough: bool
) -> None:
    assert (preflight.check_open_files(limit) == []) is enough
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, 4096))
    monkeypatch.setattr(preflight, "unmet", lambda _: [])
    told = [finding.what for finding in preflight.check_programs()]
    assert told == ([] if enough else [f"a process may open {limit} files at most"])
