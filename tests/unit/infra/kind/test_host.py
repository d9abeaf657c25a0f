"""What a host lacks for kind: findings with their remedies."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.infra.findings import fatal
from harness.infra.host.preflight import check_inotify
from harness.infra.kind import host


@pytest.fixture
def inotify(tmp_path: Path) -> Path:
    (tmp_path / "max_user_instances").write_text("8192\n")
    (tmp_path / "max_user_watches").write_text("1048576\n")
    return tmp_path


def test_generous_limits_are_no_finding(inotify: Path) -> None:
    assert check_inotify(host.INOTIFY, inotify) == []


def test_a_low_limit_is_advice_with_its_command(inotify: Path) -> None:
    (inotify / "max_user_watches").write_text("192536\n")

    (found,) = check_inotify(host.INOTIFY, inotify)

    assert not found.fatal
    assert found.what == "fs.inotify.max_user_watches is 192536"
    assert found.remedy == "sysctl -w fs.inotify.max_user_watches=524288"


@pytest.mark.parametrize(("name", "limit"), [("max_user_instances", 64), ("max_user_watches", 8192)])
def test_a_limit_with_which_no_node_comes_up_is_fatal(inotify: Path, name: str, limit: int) -> None:
    (inotify / name).write_text(f"{limit}\n")

    assert [f.what for f in fatal(check_inotify(host.INOTIFY, inotify))] == [f"fs.inotify.{name} is {limit}"]


def test_the_folder_of_modules_must_exist(tmp_path: Path) -> None:
    assert host.check_modules(tmp_path) == []
    (found,) = host.check_modules(tmp_path / "modules")
    assert found.remedy == f"mkdir -p {tmp_path / 'modules'}"


def test_old_control_groups_are_advice(tmp_path: Path) -> None:
    (found,) = host.check_cgroups(tmp_path / "cgroup.controllers")
    assert not found.fatal
    (tmp_path / "cgroup.controllers").touch()
    assert host.check_cgroups(tmp_path / "cgroup.controllers") == []
