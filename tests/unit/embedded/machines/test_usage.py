"""What a machine takes, by the accounts of cgroup v1 and v2, on plain folders."""

from __future__ import annotations

from pathlib import Path

from harness.embedded.machines.usage import Memory, disk_bytes, memory_of

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


def test_a_sparse_disk_takes_its_blocks_and_not_its_length(tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"x" * 8192)
    with disk.open("r+b") as file:
        file.truncate(2**30)
    assert 8192 <= (disk_bytes(disk) or 0) < 2**20
    assert disk_bytes(tmp_path / "gone.raw") is None
