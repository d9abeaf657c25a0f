from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.machines.keys import make_key_pair
from harness.machines.private import PrivateFiles
from harness.machines.probe_program import facts_of
from harness.operator.api.machine import DeclaredMachine
from harness.operator.controllers.probe import LAST_LINES, InfraApi, MachineLogin, ProbeTrouble, TroubleReason
from harness.proc import Completed
from tests.unit.operator.controllers.objects import machine

API = InfraApi(Path("/kubeconfig"))
THROUGH = {"virtualMachineInstance": "vm-0"}


def way(stretch: float = 1.0, api: InfraApi | None = API, **more: Any) -> MachineLogin:
    spec = {"address": "192.0.2.5", "user": "debian", **more}
    return MachineLogin(DeclaredMachine.model_validate(machine("m-0", **spec)), api, stretch)


def ended(code: int, out: str = "", err: str = "") -> Completed:
    return Completed(("ssh",), code, out, err, 0.1)


def trouble(done: Completed, over: MachineLogin) -> ProbeTrouble:
    said = over.judged(done, facts_of)
    assert isinstance(said, ProbeTrouble)
    return said


@pytest.mark.parametrize(
    "said",
    [
        "debian@192.0.2.5: Permission denied (publickey).",
        "Received disconnect from 192.0.2.5 port 22:2: Too many authentication failures",
    ],
)
def test_a_key_that_is_refused(said: str) -> None:
    found = trouble(ended(255, err=f"{said}\n"), way())
    assert found.reason is TroubleReason.KEY_REFUSED
    assert found.message.startswith(f"debian@192.0.2.5:22 refused the key of Secret keys: {said}; add its public key")


def test_a_machine_that_cannot_be_reached() -> None:
    found = trouble(ended(255, err="ssh: connect to host 192.0.2.5 port 22: No route to host"), way())
    assert found.reason is TroubleReason.UNREACHABLE
    assert found.message.startswith("debian@192.0.2.5:22 cannot be reached directly: ssh: connect")
    assert "spec.address and spec.port are right" in found.message


def test_an_instance_that_cannot_be_reached() -> None:
    found = trouble(ended(255, err="192.0.2.5:22: GET: 404 NotFound\nkex: closed"), way(through=THROUGH))
    assert found.reason is TroubleReason.UNREACHABLE
    assert "through VirtualMachineInstance vm-0: 192.0.2.5:22: GET: 404 NotFound; kex: closed" in found.message
    assert "kubectl get vmi -n ns vm-0" in found.message


@pytest.mark.parametrize(
    "done",
    [ended(1, err="sudo: a password is required"), ended(0, out="only sftp here"), ended(127)],
    ids=["no sudo", "another command", "no shell"],
)
def test_a_login_that_is_not_enough(done: Completed) -> None:
    found = trouble(done, way())
    assert found.reason is TroubleReason.NOT_PERMITTED
    assert found.message.endswith("let debian run commands as root without a password: sudo -n true")


def test_of_many_words_the_last_are_told() -> None:
    found = trouble(ended(255, err="\n".join(f"line {number}" for number in range(99))), way())
    assert f"line {99 - LAST_LINES - 1};" not in found.message
    assert "line 98;" in found.message


def test_a_port_that_nobody_listens_at_is_told_and_the_key_is_gone(tmp_path: Path) -> None:
    make_key_pair(tmp_path / "key", comment="test")
    files = PrivateFiles(tmp_path)
    found = way(address="127.0.0.1", port=9).ask((tmp_path / "key").read_bytes(), files)
    assert isinstance(found, ProbeTrouble)
    assert found.reason is TroubleReason.UNREACHABLE
    assert "debian@127.0.0.1:9 cannot be reached directly" in found.message
    assert "Connection refused" in found.message
    assert [path.name for path in files.folder.rglob("*")] == ["lock"]
    files.close()


def test_a_machine_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "ssh").write_text("#!/bin/sh\nexec sleep 1000\n", encoding="utf-8")
    (tmp_path / "ssh").chmod(0o755)
    files = PrivateFiles(tmp_path)
    found = way(0.01).ask(b"key", files)
    assert isinstance(found, ProbeTrouble)
    assert "cannot be reached directly: no answer within" in found.message
    files.close()


def test_the_way_through_the_api_is_written_down_for_ssh(tmp_path: Path) -> None:
    found = way(2.0, through=THROUGH).machine(tmp_path)
    assert found.tunnels is not None
    content = json.loads(found.tunnels.read_text(encoding="utf-8"))
    assert (content["namespace"], content["instances"]) == ("ns", {"192.0.2.5": "vm-0"})
    assert (content["kubeconfig"], content["open_seconds"]) == ("/kubeconfig", 40.0)


def test_a_manager_that_goes_directly_asks_no_api(tmp_path: Path) -> None:
    found = way(api=None, through=THROUGH)
    assert found.machine(tmp_path).tunnels is None
    assert "cannot be reached directly" in trouble(ended(255), found).message
