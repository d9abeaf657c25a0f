"""What is written into a machine's root, on a plain folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.embedded.machines import seed
from harness.errors import InfraError


def _write(root: Path) -> None:
    seed.write(root, instance_id="i-1", hostname="cp-0", user_data="#cloud-config\n", resolver="10.213.1.254")


def test_the_seed_holds_user_data_and_a_fresh_instance(tmp_path: Path) -> None:
    _write(tmp_path)
    folder = tmp_path / seed.SEED
    assert (folder / "user-data").read_text() == "#cloud-config\n"
    assert (folder / "user-data").stat().st_mode & 0o777 == 0o600
    assert (folder / "meta-data").read_text() == "instance-id: i-1\nlocal-hostname: cp-0\n"
    assert (folder / "network-config").read_text() == "config: disabled\n"


def test_the_resolver_is_a_file_even_where_the_image_has_a_link_to_a_stub(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/resolv.conf").symlink_to("../run/systemd/resolve/stub-resolv.conf")
    _write(tmp_path)
    assert not (tmp_path / "etc/resolv.conf").is_symlink()
    assert (tmp_path / "etc/resolv.conf").read_text() == "nameserver 10.213.1.254\n"


def test_the_machine_id_is_empty(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("0123\n")
    _write(tmp_path)
    assert (tmp_path / "etc/machine-id").read_text() == ""


def test_a_link_inside_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "usr/etc").mkdir(parents=True)
    (tmp_path / "etc").symlink_to("usr/etc")
    _write(tmp_path)
    assert (tmp_path / "usr/etc/hostname").read_text() == "cp-0\n"


def test_a_link_that_leads_out_of_the_root_is_refused(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "etc").symlink_to(outside)
    with pytest.raises(InfraError, match="leads out of its root"):
        _write(root)
    assert list(outside.iterdir()) == []


def test_a_v1_host_makes_the_machine_open_its_control_groups_at_boot(tmp_path: Path) -> None:
    _write(tmp_path)
    wanted = tmp_path / "etc/systemd/system/sysinit.target.wants" / seed.OPEN_CGROUPS_UNIT
    assert not wanted.is_symlink()
    seed.write(tmp_path, instance_id="i-1", hostname="cp-0", user_data="", resolver="10.213.1.254", open_cgroups=True)
    assert "remount,bind,rw" in wanted.read_text()
