"""Logins to Machines: keys, host keys, and why one failed."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from harness.kube.client import Cluster
from harness.kube.resources import SECRET, Resource
from harness.machines.keys import PrivateFiles, make_key_pair
from harness.machines.programs import facts_of
from harness.operator.api.machine import DeclaredMachine, KeyRef
from harness.operator.controllers.ssh import (
    KEY_SECONDS,
    LAST_LINES,
    InfraApi,
    KnownKeys,
    MachineLogin,
    ProbeTrouble,
    TroubleReason,
    key_of_secret,
)
from harness.proc import Completed, run
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
    assert (content["kubeconfig"], content["open_seconds"]) == (["/kubeconfig"], 40.0)


def test_a_manager_that_goes_directly_asks_no_api(tmp_path: Path) -> None:
    found = way(api=None, through=THROUGH)
    assert found.machine(tmp_path).tunnels is None
    assert "cannot be reached directly" in trouble(ended(255), found).message


PEM = serialization.PrivateFormat.TraditionalOpenSSL


def secret(**data: bytes) -> dict[str, Any]:
    return {"data": {name.replace("_", "-"): base64.b64encode(value).decode() for name, value in data.items()}}


def usable(found: dict[str, Any] | None, key: str = "ssh-privatekey") -> bytes | ProbeTrouble:
    return key_of_secret(found, KeyRef(name="keys", key=key))


def key_trouble(found: dict[str, Any] | None) -> ProbeTrouble:
    said = usable(found)
    assert isinstance(said, ProbeTrouble)
    return said


def key_file(folder: Path) -> bytes:
    make_key_pair(folder / "key", comment="test")
    return (folder / "key").read_bytes()


def test_a_key_is_taken_as_it_is_and_ends_its_last_line(tmp_path: Path) -> None:
    key = key_file(tmp_path)
    assert usable(secret(ssh_privatekey=key)) == key
    assert usable(secret(ssh_privatekey=key.strip())) == key
    rsa = generate_private_key(65537, 2048).private_bytes(serialization.Encoding.PEM, PEM, serialization.NoEncryption())
    assert usable(secret(id=rsa), "id") == rsa


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "there is no Secret keys in this namespace; make it: kubectl create secret generic keys"),
        ({}, "Secret keys has no ssh-privatekey (it has: nothing)"),
        (secret(id_rsa=b"x", ssh_publickey=b"y"), "Secret keys has no ssh-privatekey (it has: id-rsa, ssh-publickey)"),
    ],
)
def test_a_key_that_is_not_there(found: dict[str, Any] | None, said: str) -> None:
    unusable = key_trouble(found)
    assert unusable.reason is TroubleReason.KEY_MISSING
    assert said in unusable.message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"ssh-ed25519 AAAA somebody", "not the .pub file"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "is not a private key"),
        (b"\xff\xfe", "is not a private key"),
    ],
)
def test_a_key_that_ssh_cannot_use(content: bytes, said: str) -> None:
    unusable = key_trouble(secret(ssh_privatekey=content))
    assert unusable.reason is TroubleReason.INVALID_KEY
    assert said in unusable.message
    assert content.decode(errors="replace") not in unusable.message


def test_a_key_with_a_passphrase(tmp_path: Path) -> None:
    path = tmp_path / "key"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "a phrase", "-f", path], timeout=60)
    unusable = key_trouble(secret(ssh_privatekey=path.read_bytes()))
    assert unusable.reason is TroubleReason.INVALID_KEY
    assert "give a key without a passphrase" in unusable.message


MACHINE = DeclaredMachine.model_validate(machine("m-0"))
FORM = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
KEY = Ed25519PrivateKey.generate().private_bytes(*FORM)
REFUSED = ProbeTrouble(TroubleReason.KEY_REFUSED, "no")
AWAY = ProbeTrouble(TroubleReason.UNREACHABLE, "no")


@dataclass
class Secrets:
    """An API with one Secret, and how often it was asked for."""

    there: bool = True
    asked: int = 0
    now: float = 0.0

    def get(self, resource: Resource, name: str, namespace: str) -> dict[str, Any] | None:
        assert (resource, namespace) == (SECRET, MACHINE.metadata.namespace)
        self.asked += 1
        key = {MACHINE.spec.key_ref.key: base64.b64encode(KEY).decode()}
        return {"metadata": {"name": name}, "data": key} if self.there else None


def keys(api: Secrets, seconds: float = KEY_SECONDS) -> KnownKeys:
    return KnownKeys(cast(Cluster, api), seconds, lambda: api.now)


def test_a_key_is_read_once_and_again_when_its_time_is_over() -> None:
    api = Secrets()
    known = keys(api)
    assert known.of(MACHINE) == known.of(MACHINE) != b""
    assert api.asked == 1
    api.now = KEY_SECONDS + 1
    known.of(MACHINE)
    assert api.asked == 2


def test_without_a_time_nothing_is_remembered() -> None:
    api = Secrets()
    known = keys(api, 0)
    known.of(MACHINE)
    known.of(MACHINE)
    assert api.asked == 2


@pytest.mark.parametrize(("outcome", "reads"), [(REFUSED, 2), (AWAY, 1), ("facts", 1)])
def test_a_key_that_was_refused_is_read_again(outcome: object, reads: int) -> None:
    api = Secrets()
    known = keys(api)
    known.of(MACHINE)
    known.judge(MACHINE, outcome)
    known.of(MACHINE)
    assert api.asked == reads


def test_a_secret_that_is_missing_is_asked_for_each_time() -> None:
    api = Secrets(there=False)
    known = keys(api)
    assert isinstance(known.of(MACHINE), ProbeTrouble)
    api.there = True
    assert isinstance(known.of(MACHINE), bytes)
