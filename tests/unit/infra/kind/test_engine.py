"""Which engine is used, told by what the clients answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.infra.findings import fatal
from harness.infra.host.preflight import check_inotify
from harness.infra.kind import engine
from harness.infra.kind.engine import missing, read_info

PROGRAM = Path("/usr/bin/engine")


def test_docker_that_answers_is_an_engine() -> None:
    text = json.dumps({"ServerVersion": "20.10.24", "CgroupVersion": "1"})

    engine, why = read_info("docker", PROGRAM, text)

    assert engine is not None
    assert (engine.version, engine.unified, why) == ("20.10.24", False, "")
    assert engine.environment == {"KIND_EXPERIMENTAL_PROVIDER": "docker"}


def test_a_docker_client_without_its_daemon_is_none_and_says_why() -> None:
    text = json.dumps({"ServerErrors": ["Cannot connect to the Docker daemon"], "ServerVersion": ""})

    engine, why = read_info("docker", PROGRAM, text)

    assert engine is None
    assert why == "Cannot connect to the Docker daemon"


def test_podman_answers_in_words_of_its_own() -> None:
    text = json.dumps({"host": {"cgroupVersion": "v2"}, "version": {"Version": "5.4.2"}})

    engine, _ = read_info("podman", PROGRAM, text)

    assert engine is not None
    assert (engine.version, engine.unified, engine.network_variable()) == (
        "5.4.2",
        True,
        "KIND_EXPERIMENTAL_PODMAN_NETWORK",
    )


def test_an_answer_that_is_no_json_is_no_engine() -> None:
    assert read_info("docker", PROGRAM, "not json") == (None, "gave an unreadable answer")


def test_the_remedy_fits_what_is_installed() -> None:
    assert missing({"docker": "not installed", "podman": "not installed"}).remedy == "apt-get install --yes docker.io"
    assert "systemctl start docker" in missing({"docker": "does not answer", "podman": "not installed"}).remedy


@pytest.fixture
def inotify(tmp_path: Path) -> Path:
    (tmp_path / "max_user_instances").write_text("8192\n")
    (tmp_path / "max_user_watches").write_text("1048576\n")
    return tmp_path


def test_generous_limits_are_no_finding(inotify: Path) -> None:
    assert check_inotify(engine.INOTIFY, inotify) == []


def test_a_low_limit_is_advice_with_its_command(inotify: Path) -> None:
    (inotify / "max_user_watches").write_text("192536\n")

    (found,) = check_inotify(engine.INOTIFY, inotify)

    assert not found.fatal
    assert found.what == "fs.inotify.max_user_watches is 192536"
    assert found.remedy == "sysctl -w fs.inotify.max_user_watches=524288"


@pytest.mark.parametrize(("name", "limit"), [("max_user_instances", 64), ("max_user_watches", 8192)])
def test_a_limit_with_which_no_node_comes_up_is_fatal(inotify: Path, name: str, limit: int) -> None:
    (inotify / name).write_text(f"{limit}\n")

    assert [f.what for f in fatal(check_inotify(engine.INOTIFY, inotify))] == [f"fs.inotify.{name} is {limit}"]


def test_the_folder_of_modules_must_exist(tmp_path: Path) -> None:
    assert engine.check_modules(tmp_path) == []
    (found,) = engine.check_modules(tmp_path / "modules")
    assert found.remedy == f"mkdir -p {tmp_path / 'modules'}"


def test_old_control_groups_are_advice(tmp_path: Path) -> None:
    (found,) = engine.check_cgroups(tmp_path / "cgroup.controllers")
    assert not found.fatal
    (tmp_path / "cgroup.controllers").touch()
    assert engine.check_cgroups(tmp_path / "cgroup.controllers") == []
