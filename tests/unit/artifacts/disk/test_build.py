"""Disk images as they are built: packages, and the layout that boots."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts.disk import build
from harness.artifacts.disk.build import DiskIds, matching
from harness.errors import BadInput


def _root(folder: Path) -> Path:
    wants = folder / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "balancer.service").symlink_to("/nowhere/on/this/host/balancer.service")
    (wants / "ssh.service").write_text("")
    (folder / "var/lib/apt/lists").mkdir(parents=True)
    (folder / "var/lib/apt/lists/.hidden").write_text("")
    (folder / "var/lib/apt/lists/index").write_text("")
    return folder


def test_a_link_that_leads_nowhere_on_the_building_host_is_found_by_its_name(tmp_path: Path) -> None:
    found = matching(_root(tmp_path), "/etc/systemd/system/*.wants/balancer.service")
    assert found == [tmp_path / "etc/systemd/system/multi-user.target.wants/balancer.service"]


def test_all_that_a_folder_holds_is_found_and_nothing_beside_it(tmp_path: Path) -> None:
    found = matching(_root(tmp_path), "/var/lib/apt/lists/*")
    assert sorted(path.name for path in found) == [".hidden", "index"]


def test_a_pattern_that_fits_nothing_finds_nothing(tmp_path: Path) -> None:
    assert matching(_root(tmp_path), "/boot/*") == []


def test_the_root_is_found_by_the_id_that_its_file_system_gets(tmp_path: Path) -> None:
    ids = DiskIds.of("key")
    (tmp_path / "etc").mkdir()
    build.configure(tmp_path, ids, ("rw", "console=ttyS0"))
    menu = (tmp_path / "boot/grub/grub.cfg").read_text()
    assert (tmp_path / "etc/fstab").read_text().startswith(f"UUID={ids.file_system} / ext4 ")
    assert f"search --no-floppy --fs-uuid --set=root {ids.file_system}\n" in menu
    assert f"linux /vmlinuz root=UUID={ids.file_system} rw console=ttyS0\n" in menu


def test_ids_follow_from_the_recipe_alone_and_differ_from_each_other() -> None:
    assert DiskIds.of("a") == DiskIds.of("a")
    assert len({*vars(DiskIds.of("a")).values(), *vars(DiskIds.of("b")).values()}) == 12


def test_a_host_of_another_architecture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    build.require_architecture()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(BadInput, match="on amd64 only"):
        build.require_architecture()
