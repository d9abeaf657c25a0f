"""Which engine is used, told by what the clients answer."""

from __future__ import annotations

import json
from pathlib import Path

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
