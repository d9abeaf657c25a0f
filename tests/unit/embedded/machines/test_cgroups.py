"""Control group hierarchies, limits and accounts, on text and on plain folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.embedded.machines import cgroups
from harness.embedded.machines.cgroups import Hierarchy, Memory, memory_of

HYBRID = """proc /proc proc rw 0 0
tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
"""
UNIFIED = """proc /proc proc rw 0 0
cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0
"""


def test_a_hybrid_host_has_several_hierarchies_and_is_not_unified() -> None:
    found = cgroups.hierarchies(HYBRID)
    assert [(h.path.name, h.version) for h in found] == [("unified", 2), ("systemd", 1), ("cpu,cpuacct", 1)]
    assert not cgroups.is_unified(found)


def test_a_v2_host_has_one_hierarchy() -> None:
    found = cgroups.hierarchies(UNIFIED)
    assert found == (Hierarchy(Path("/sys/fs/cgroup"), 2),)
    assert cgroups.is_unified(found)


def test_a_mount_over_the_root_hides_what_was_below_it() -> None:
    assert cgroups.is_unified(cgroups.hierarchies(HYBRID + UNIFIED))


def test_limits_are_written_in_the_words_of_cgroup_v1(tmp_path: Path) -> None:
    found = _tree(tmp_path, {"memory": ["memory.limit_in_bytes"], "cpu": ["cpu.cfs_quota_us"]})
    cgroups.create("m", found, cpus=2, memory_mib=512)
    assert (tmp_path / "memory/m/memory.limit_in_bytes").read_text() == str(512 << 20)
    assert (tmp_path / "cpu/m/cpu.cfs_quota_us").read_text() == "200000"


def test_a_v1_cpuset_group_gets_its_parents_cpus_because_it_refuses_processes_without(tmp_path: Path) -> None:
    found = _tree(tmp_path, {"cpuset": ["cpuset.cpus", "cpuset.mems"]})
    (tmp_path / "cpuset/cpuset.cpus").write_text("0-1")
    (tmp_path / "cpuset/cpuset.mems").write_text("0")
    cgroups.create("m", found, cpus=2, memory_mib=512)
    assert (tmp_path / "cpuset/m/cpuset.cpus").read_text() == "0-1"
    assert (tmp_path / "cpuset/m/cpuset.mems").read_text() == "0"


def test_limits_are_written_in_the_words_of_cgroup_v2(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    for knob in ("memory.max", "cpu.max"):
        (tmp_path / "m" / knob).touch()
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids rdma\n")
    cgroups.create("m", (Hierarchy(tmp_path, 2),), cpus=3, memory_mib=256)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (tmp_path / "m/memory.max").read_text() == str(256 << 20)
    assert (tmp_path / "m/cpu.max").read_text() == "300000 100000"


def test_processes_are_found_in_every_group_below(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    for folder, text in (("a", "1\n"), ("a/b", ""), ("a/b/c", "22\n333\n")):
        (tmp_path / folder / "cgroup.procs").write_text(text)
    assert cgroups.pids([tmp_path / "a", tmp_path / "gone"]) == {1, 22, 333}


def test_groups_are_removed_deepest_first_and_those_in_use_are_named(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "busy/c").mkdir(parents=True)
    (tmp_path / "busy/c/held").touch()
    stuck = cgroups.remove([tmp_path / "a", tmp_path / "busy", tmp_path / "never"])
    assert not (tmp_path / "a").exists()
    assert stuck == [tmp_path / "busy/c", tmp_path / "busy"]


@pytest.mark.parametrize(
    ("knob", "frozen", "thawed", "outcome"),
    [
        ("freezer.state", "FROZEN", "THAWED", ("freezer.state", "FROZEN\n")),
        ("cgroup.freeze", "1", "0", ("cgroup.events", "populated 1\nfrozen 1\n")),
    ],
)
def test_a_group_is_frozen(tmp_path: Path, knob: str, frozen: str, thawed: str, outcome: tuple[str, str]) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / knob).touch()
    groups = [tmp_path / "other", tmp_path / "m"]
    cgroups.freeze(groups, frozen=True)
    assert (tmp_path / "m" / knob).read_text() == frozen
    assert not cgroups.is_frozen(groups)  # until the kernel says so
    (tmp_path / "m" / outcome[0]).write_text(outcome[1])
    assert cgroups.is_frozen(groups)
    cgroups.freeze(groups, frozen=False)
    assert (tmp_path / "m" / knob).read_text() == thawed


def _tree(root: Path, knobs: dict[str, list[str]]) -> tuple[Hierarchy, ...]:
    """Make v1 hierarchies as folders, with a group `m` in each that has the knobs (the kernel would make them)."""
    for name, files in knobs.items():
        (root / name / "m").mkdir(parents=True)
        for file in files:
            (root / name / "m" / file).touch()
    return tuple(Hierarchy(root / name, 1) for name in knobs)


V1 = {
    "memory.usage_in_bytes": "2000\n",
    "memory.stat": "inactive_file 7\ntotal_cache 1500\ntotal_shmem 100\ntotal_inactive_file 1100\n",
}
V2 = {"memory.current": "900\n", "memory.stat": "anon 200\nfile 600\nshmem 50\ninactive_file 500\n"}


def _group(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_page_cache_used_once_is_not_in_the_working_set_and_no_page_cache_of_files_is_kept(tmp_path: Path) -> None:
    groups = [_group(tmp_path / "cpu", {"cpu.shares": "1"}), _group(tmp_path / "memory", V1)]
    assert memory_of(groups) == Memory(usage=2000, working_set=900, kept=600)


def test_cgroup_v2_says_it_in_other_words(tmp_path: Path) -> None:
    assert memory_of([_group(tmp_path / "vmx0-1", V2)]) == Memory(usage=900, working_set=400, kept=350)


def test_a_machine_without_an_account_takes_nothing_that_is_known(tmp_path: Path) -> None:
    assert memory_of([_group(tmp_path / "cpu", {"cpu.shares": "1"}), tmp_path / "gone"]) is None
