"""What a machine reports of its files is what is there, and never what is in them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from harness.validate.machine import files as machine_files
from harness.validate.machine.library import age

KEY = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"


def process(name: str, *argv: str, pid: int = 0) -> dict[str, Any]:
    return {
        "pid": pid or os.getpid(),
        "name": name,
        "argv": [name, *argv],
        "executable": "",
        "cgroup": "/",
        "settings": {},
    }


def test_files_are_told_with_their_rights_and_without_their_content(tmp_path: Path) -> None:
    (tmp_path / "etcd").mkdir(mode=0o755)
    (tmp_path / "etcd" / "ca.key").write_text(KEY, encoding="utf-8")
    (tmp_path / "ca.crt").write_text("public", encoding="utf-8")
    for path in ("etcd/ca.key", "ca.crt"):
        (tmp_path / path).chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "ca.crt")
    tmp_path.chmod(0o700)
    found = machine_files.files([], str(tmp_path))
    own = {path: row for path, row in found.items() if path.startswith(str(tmp_path))}
    owner = [os.getuid(), os.stat(tmp_path).st_gid]
    assert found[str(tmp_path.parent)][0] == "above"
    assert own == {
        str(tmp_path): ["folder", 0o700, *owner, False],
        f"{tmp_path}/etcd": ["folder", 0o755, *owner, False],
        f"{tmp_path}/etcd/ca.key": ["file", 0o640, *owner, True],
        f"{tmp_path}/ca.crt": ["file", 0o640, *owner, False],
    }


@pytest.mark.parametrize(("seconds", "newer"), [(3600, True), (-3600, False)])
def test_files_are_told_by_how_much_they_are_newer_than_the_process(
    tmp_path: Path, seconds: float, newer: bool
) -> None:
    config = tmp_path / "config.yaml"
    config.touch()
    started = time.time() - age(os.getpid())
    os.utime(config, (started + seconds, started + seconds))
    found = machine_files.newer_files(process("kubelet", f"--config={config}"))
    assert (found[str(config)] > 0) is newer


def test_a_process_is_compared_with_the_file_that_started_it(tmp_path: Path) -> None:
    own = os.readlink("/proc/self/exe")
    other = tmp_path / "kubelet"
    other.touch()
    assert machine_files.executable({**process("kubelet"), "argv": [own]})["own"] is True
    assert machine_files.executable({**process("kubelet"), "argv": [str(other)]})["own"] is False
    assert machine_files.executable({**process("kubelet"), "argv": ["kubelet"]})["own"] is None


def test_a_process_that_ends_meanwhile_is_no_finding() -> None:
    ended = {**process("containerd"), "pid": 2**22 + 1}  # above the most that the kernel gives
    assert list(machine_files.executables([ended, process("kubelet")])) == ["kubelet"]


def test_listeners_are_those_of_the_clusters_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        'LISTEN 0 4096 *:10250 *:* users:(("kubelet",pid=7,fd=17))',
        'LISTEN 0 128 [::]:22 [::]:* users:(("sshd",pid=8,fd=7))',
        'LISTEN 0 2000 127.0.0.1:6445 0.0.0.0:* users:(("haproxy",pid=9,fd=7),("haproxy",pid=10,fd=7))',
    ]
    names = {
        "7": "/usr/local/bin/kubelet\0--v=2",
        "8": "sshd: /usr/sbin/sshd -D",
        "9": "/usr/sbin/haproxy",
        "10": "haproxy",
    }
    monkeypatch.setattr(machine_files, "said", lambda _: "\n".join(lines))
    monkeypatch.setattr(
        machine_files, "read", lambda path: names.get(path.split("/")[2]) if "cmdline" in path else "0::/"
    )
    assert machine_files.listeners() == [
        ["*", 10250, "kubelet"],
        ["127.0.0.1", 6445, "haproxy"],
        ["127.0.0.1", 6445, "haproxy"],
    ]


def test_programs_their_units_and_folders_are_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "manifests").mkdir(mode=0o700)
    program, config = tmp_path / "kubelet", tmp_path / "config.yaml"
    program.touch(mode=0o755)
    config.write_text(f"staticPodPath: {tmp_path}/manifests\n", encoding="utf-8")
    monkeypatch.setattr(machine_files, "PLACES", [])
    found = machine_files.places([{**process("kubelet", f"--config={config}"), "executable": str(program)}])
    assert {path: row[:2] for path, row in found.items()} == {
        str(program): ["place", 0o755],
        f"{tmp_path}/manifests": ["place", 0o700],
    }


def test_folders_that_programs_write_to_are_told_with_their_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_files, "WRITTEN", [str(tmp_path), "/nowhere"])
    monkeypatch.setattr(machine_files, "RUN", (str(tmp_path),))
    found = machine_files.written([], "")
    assert list(found) == [str(tmp_path)]
    room = found[str(tmp_path)]
    assert (room["closed"], room["locked"], room["runs"], room["passing"]) == ("", [], True, False)
    assert 0 < room["space"] <= 1
    assert 0 < room["files"] <= 1


@pytest.mark.parametrize(
    ("kind", "path", "judged"),
    [
        ("ext4", "volume", True),
        ("tmpfs", "volume", True),
        ("overlay", "volume", True),
        *((kind, "namespaces/netns/1", False) for kind in sorted(machine_files.NO_FILES)),
    ],
)
def test_mounts_below_a_folder_are_judged_unless_they_have_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, path: str, judged: bool
) -> None:
    there = tmp_path / path
    there.mkdir(parents=True)
    monkeypatch.setattr(machine_files, "WRITTEN", [str(tmp_path)])
    monkeypatch.setattr(machine_files, "RUN", ())
    monkeypatch.setattr(machine_files, "mounted", lambda: {"/": ("rw", "ext4"), str(there): ("rw", kind)})
    found = machine_files.written([], "")
    assert (str(there) in found) is judged
    assert str(tmp_path) in found
