"""What a bootable image says of its own disk, and where it can be built."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts.disk import boot
from harness.artifacts.disk.layout import DiskIds
from harness.errors import BadInput


def test_the_root_is_found_by_the_id_that_its_file_system_gets(tmp_path: Path) -> None:
    ids = DiskIds.of("key")
    (tmp_path / "etc").mkdir()
    boot.configure(tmp_path, ids, ("rw", "console=ttyS0"))
    menu = (tmp_path / "boot/grub/grub.cfg").read_text()
    assert (tmp_path / "etc/fstab").read_text().startswith(f"UUID={ids.file_system} / ext4 ")
    assert f"search --no-floppy --fs-uuid --set=root {ids.file_system}\n" in menu
    assert f"linux /vmlinuz root=UUID={ids.file_system} rw console=ttyS0\n" in menu


def test_ids_follow_from_the_recipe_alone_and_differ_from_each_other() -> None:
    assert DiskIds.of("a") == DiskIds.of("a")
    assert len({*vars(DiskIds.of("a")).values(), *vars(DiskIds.of("b")).values()}) == 12


def test_a_host_of_another_architecture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    boot.require_architecture()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(BadInput, match="on amd64 only"):
        boot.require_architecture()
