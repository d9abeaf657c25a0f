"""The keys for Secrets change in steps, in each of which every API server can read what another one wrote."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

import pytest

from harness import proc
from tests.unit.playbooks.test_templates import render

FIRST, SECOND = (base64.b64encode(letter * 32).decode() for letter in (b"a", b"b"))
STEPS = ("begin", "known", "used", "rewrite", "only")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the role's script for each step."""
    found = {}
    for step in STEPS:
        place = render("cp1-w1", tmp_path_factory.mktemp(step), frozenset({"keys.sh"}), encryption_key_step=step)
        found[step] = (place / "keys.sh").read_text(encoding="utf-8")
    return found


class Plane:
    """A control plane whose API server has read its files at once."""

    def __init__(self, place: Path, scripts: dict[str, str]) -> None:
        self.folder, self.scripts, self.tools = place / "hardening", scripts, place / "tools"
        self.manifest, self.place = place / "kube-apiserver.yaml", place
        self.tools.mkdir()
        self.tool("pgrep", "exit 1")
        self.answer('echo \'x{apiserver_id_hash="a",status="success"} 9e+09\'')

    def tool(self, name: str, text: str) -> None:
        (self.tools / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (self.tools / name).chmod(0o755)

    def answer(self, metrics: str) -> None:
        """Say what kubectl prints: metrics, Secrets, and what it has replaced."""
        name = "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds"
        metrics = metrics.replace("x{", f"{name}{{")
        self.tool(
            "kubectl", f'case "$*" in *metrics*) {metrics} ;; *replace*) cat >/dev/null; echo secret/a replaced ;; esac'
        )

    def step(self, name: str, key: str, *, check: bool = True) -> tuple[int, str]:
        text = self.scripts[name].replace("/etc/kubernetes/hardening", str(self.folder))
        text = text.replace("/etc/kubernetes/manifests/kube-apiserver.yaml", str(self.manifest))
        text = re.sub(r"\+ 180\)", "+ 1)", text).replace("/run/", f"{self.place}/")
        environment = {"PATH": f"{self.tools}:{os.environ['PATH']}"}
        done = proc.run(["sh", "-c", text], timeout=30, stdin=key, env=environment, check=check)
        return done.returncode, done.stdout + done.stderr

    @property
    def keys(self) -> list[str]:
        return re.findall(r"secret: (.*)", (self.folder / "encryption.yml").read_text(encoding="utf-8"))


@pytest.fixture
def plane(tmp_path: Path, scripts: dict[str, str]) -> Plane:
    """Return a control plane without keys."""
    return Plane(tmp_path, scripts)


def test_the_first_key_is_written_once_and_for_root_alone(plane: Plane) -> None:
    _, said = plane.step("begin", FIRST)
    assert "wrote" in said
    assert FIRST not in said
    assert plane.keys == [FIRST]
    assert (plane.folder / "encryption.yml").stat().st_mode & 0o777 == 0o600
    assert plane.step("begin", FIRST) == (0, "")


def test_another_key_is_refused_where_an_api_server_uses_the_first(plane: Plane) -> None:
    plane.step("begin", FIRST)
    plane.manifest.touch()
    code, said = plane.step("begin", SECOND, check=False)
    assert code == 65
    assert "run rotate-encryption-key.yml" in said
    assert plane.keys == [FIRST]


def test_a_key_changes_in_steps_and_a_second_run_changes_nothing(plane: Plane) -> None:
    plane.step("begin", FIRST)
    seen = []
    for step in STEPS[1:]:
        plane.step(step, SECOND)
        seen.append(plane.keys)
    assert seen == [[FIRST, SECOND], [SECOND, FIRST], [SECOND, FIRST], [SECOND]]
    assert [plane.step(step, SECOND) for step in STEPS[1:]] == [(0, "")] * 4


def test_a_run_that_was_cut_short_goes_on(plane: Plane) -> None:
    plane.step("begin", FIRST)
    for step in ("known", "used", "known", "used", "rewrite", "only"):
        plane.step(step, SECOND)
    assert plane.keys == [SECOND]


def test_the_former_key_stays_until_every_secret_is_written_anew(plane: Plane) -> None:
    plane.step("begin", FIRST)
    plane.step("known", SECOND)
    plane.step("used", SECOND)
    plane.tool("kubectl", "exit 1")
    plane.tool("sleep", "true")
    code, said = plane.step("rewrite", SECOND, check=False)
    assert code == 1
    assert "the former key is kept" in said
    assert plane.keys == [SECOND, FIRST]


def test_no_step_ends_before_the_api_server_has_read_its_keys(plane: Plane) -> None:
    plane.step("begin", FIRST)
    plane.answer('echo \'x{apiserver_id_hash="a",status="success"} 1.5e+09\'')
    code, said = plane.step("known", SECOND, check=False)
    assert code == 1
    assert "has not read" in said
    plane.answer('echo \'x{apiserver_id_hash="a",status="failure"} 9e+09\'')
    assert plane.step("known", SECOND, check=False)[0] == 1


def test_keys_of_a_cluster_that_encrypts_nothing_cannot_change(plane: Plane) -> None:
    code, said = plane.step("known", FIRST, check=False)
    assert code == 65
    assert "run reconfigure.yml" in said
