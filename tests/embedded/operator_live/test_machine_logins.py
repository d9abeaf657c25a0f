"""Logins to a real machine with a real sshd, directly and through the API: what is found, and what is refused."""

from __future__ import annotations

import base64
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.kube.client import Cluster, Json
from harness.kube.resources import NAMESPACE, SECRET, VM
from harness.machines.keys import PREFIX, make_key_pair
from harness.machines.kubevirt.manifests import GoldenImage
from harness.machines.reach.ssh import close_connections
from harness.model import Machine
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.controllers import inspection
from harness.providers.embedded import EmbeddedProvider
from tests.contract.machines import Machines
from tests.contract.storage import default_storage
from tests.contract.volumes import wait_gone
from tests.embedded.kubevirt.conftest import image
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.unit.operator.api.objects import wanted_set

__all__ = ["image"]
VM_NAME = "real"


@dataclass(frozen=True)
class Real:
    """One machine that runs, the objects of its namespace, and how its address and user are written in a Machine."""

    machines: Machines
    machine: Machine
    declared: Declared

    def spec(self, **more: object) -> Json:
        """Return the spec of a Machine that is this machine."""
        return {"address": self.machine.address, "user": self.machine.user, **more}

    def sh(self, command: str) -> str:
        """Run a command as root."""
        done = self.machines.run(self.machine, f"sudo sh -ec '{command}'")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def running(infra: EmbeddedProvider, api: Cluster, image: GoldenImage) -> Iterator[Real]:
    """Return a machine that can be logged in to; it is gone after the module's tests."""
    namespace = f"operator-{secrets.token_hex(3)}"
    api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    with tempfile.TemporaryDirectory(prefix="vmx-") as folder:  # sockets want a short path
        storage = default_storage(api)
        made = Machines(api, namespace, image, Path(folder) / "key", Path(folder), infra.kubeconfig(), storage)
        made.disk_of_its_own(VM_NAME)
        made.create(VM_NAME)
        made.wait_ready(VM_NAME)
        declared = Declared(api, namespace)
        declared.key(made.key)
        yield Real(made, made.login(VM_NAME), declared)
        close_connections(Path(folder))
        api.delete(VM, VM_NAME, namespace)
        wait_gone(api, VM, namespace, VM_NAME)
        api.delete(NAMESPACE, namespace)


@pytest.fixture
def namespace(running: Real) -> str:
    """Return the namespace of the machine, which managers look at."""
    return running.declared.namespace


@pytest.fixture
def real(running: Real, manager: StartManager) -> Iterator[Real]:
    """Return the machine, with a manager that logs in to it; Machines and private files are gone after the test."""
    context = manager("machine")
    yield running
    for found in running.declared.api.list(MACHINE, running.declared.namespace).items:
        running.declared.api.delete(MACHINE, found["metadata"]["name"], running.declared.namespace)
    left = [path for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/**/*") if path.name != "lock"]
    assert left == [], context


def test_a_machine_says_what_it_is(real: Real) -> None:
    real.declared.machine("m-0", **real.spec())
    facts = real.declared.phase("m-0", "Idle")["status"]["facts"]
    assert facts["machineID"] == real.sh("cat /etc/machine-id")
    assert facts["os"].startswith("Debian GNU/Linux 13")
    assert facts["cpus"] == int(real.sh("nproc"))
    assert facts["memoryMiB"] > 0


def test_a_machine_is_logged_in_to_through_its_instance(real: Real) -> None:
    real.declared.machine("m-0", **real.spec(through={"virtualMachineInstance": VM_NAME}))
    assert real.declared.phase("m-0", "Idle")["status"]["facts"]["machineID"] == real.sh("cat /etc/machine-id")


def test_one_machine_that_is_given_twice_is_found_out(real: Real) -> None:
    real.declared.machine("m-0", **real.spec())
    real.declared.phase("m-0", "Idle")
    real.declared.machine("m-1", **real.spec(through={"virtualMachineInstance": VM_NAME}))
    assert f"{real.declared.namespace}/m-0" in real.declared.reason("m-1", "Empty", "DuplicateMachineID")["message"]


@pytest.mark.parametrize("path", ["/etc/kubernetes/kubelet.conf", "/var/lib/etcd/member/snap/db"])
def test_a_machine_that_is_a_node_is_refused_until_it_is_reset(real: Real, path: str) -> None:
    folder = path.rpartition("/")[0]
    real.sh(f"mkdir -p -m 0700 {folder}; touch {path}")
    try:
        real.declared.machine("m-0", **real.spec())
        assert f"{path} is there" in real.declared.reason("m-0", "Empty", "NotEmpty")["message"]
        real.declared.phase("m-0", "Failed")
    finally:
        real.sh(f"rm {path}")
    real.declared.phase("m-0", "Idle")


def test_a_key_that_the_machine_does_not_know_is_refused(real: Real, tmp_path: Path) -> None:
    make_key_pair(tmp_path / "other", comment="other")
    real.declared.key(tmp_path / "other", "other")
    real.declared.machine("m-0", **real.spec(keyRef={"name": "other"}))
    said = real.declared.reason("m-0", "Reachable", "KeyRefused")["message"]
    assert "refused the key of Secret other" in said
    real.declared.phase("m-0", "Failed")


def test_a_user_who_may_not_become_root_is_told(real: Real) -> None:
    user = real.machine.user
    real.sh(f"id plain || useradd -m -s /bin/sh plain; cp -r ~{user}/.ssh /home/plain/; chown -R plain /home/plain")
    real.declared.machine("m-0", **real.spec(user="plain"))
    assert "sudo -n true" in real.declared.reason("m-0", "Reachable", "NotPermitted")["message"]


NO_WAY: dict[str, tuple[Json, str]] = {
    "nobody listens": ({"port": 2}, "Connection refused"),
    "nobody listens behind the instance": (
        {"port": 2, "through": {"virtualMachineInstance": VM_NAME}},
        "dialing VM",
    ),
    "no such instance": ({"through": {"virtualMachineInstance": "nobody"}}, "404"),
}


@pytest.mark.parametrize("case", NO_WAY)
def test_a_machine_that_there_is_no_way_to_is_unreachable(real: Real, case: str) -> None:
    more, said = NO_WAY[case]
    real.declared.machine("m-0", **real.spec(**more))
    assert said in real.declared.reason("m-0", "Reachable", "Unreachable")["message"]
    real.declared.phase("m-0", "Unreachable")


SECRETS: dict[str, tuple[Json | None, str, str]] = {
    "no Secret": (None, "KeyMissing", "there is no Secret some"),
    "no key in it": ({"id_rsa": "eA=="}, "KeyMissing", "Secret some has no ssh-privatekey (it has: id_rsa)"),
    "no private key": ({"ssh-privatekey": "eA=="}, "InvalidKey", "is not a private key"),
}


@pytest.mark.parametrize("case", SECRETS)
def test_a_secret_without_a_key_is_told_and_a_better_one_is_found(real: Real, case: str) -> None:
    data, reason, said = SECRETS[case]
    declared = real.declared
    if data is not None:
        declared.api.create(SECRET, SECRET.manifest("some", declared.namespace, labels={}, data=data))
    declared.machine("m-0", **real.spec(keyRef={"name": "some"}))
    assert said in declared.reason("m-0", "Reachable", reason)["message"]
    declared.api.delete(SECRET, "some", declared.namespace)
    declared.key(real.machines.key, "some")
    declared.phase("m-0", "Idle")
    declared.api.delete(SECRET, "some", declared.namespace)


MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
CERTIFICATE = "/etc/kubernetes/pki/apiserver.crt"


@pytest.fixture
def member(running: Real, manager: StartManager, monkeypatch: pytest.MonkeyPatch) -> Iterator[Real]:
    """Return the machine as a control plane, as far as its files tell, with a manager that looks into it."""
    monkeypatch.setattr(inspection, "LOOK_SECONDS", 1.0)
    manager("machine", "machineset", "claims", "inspection")
    declared = running.declared
    declared.machine("m-0", **running.spec())
    declared.deployment("one", wanted_set("cp", "control-plane"))
    declared.phase("m-0", "Claimed")
    pem = base64.b64encode(certificate(datetime(2031, 5, 1, tzinfo=UTC))).decode()
    running.sh(f"mkdir -p /etc/kubernetes/manifests /etc/kubernetes/pki; echo one > {MANIFEST}")
    running.sh(f"echo {pem} | base64 -d > {CERTIFICATE}")
    declared.worked("one", "deploy", "m-0")
    yield running
    running.sh("rm -r /etc/kubernetes")
    declared.api.delete(CLUSTER_DEPLOYMENT, "one", declared.namespace)
    declared.api.delete(MACHINE, "m-0", declared.namespace)
    declared.gone("m-0")


def certificate(end: datetime) -> bytes:
    """Return a certificate that expires then."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "one")])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, end - timedelta(days=3650), end)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_files_and_certificates_of_a_member_are_read_and_a_change_is_said(member: Real) -> None:
    member.declared.reason("m-0", "SettingsAsApplied", "AsApplied")
    status = member.declared.get("m-0")["status"]
    assert status["certificates"] == {"firstExpiry": "2031-05-01T00:00:00Z", "file": CERTIFICATE}
    assert [line.partition(" ")[2] for line in status["settings"]["files"]] == [MANIFEST]
    member.declared.reason("m-0", "Answering", "LoggedIn")
    member.sh(f"echo two > {MANIFEST}")
    said = member.declared.reason("m-0", "SettingsAsApplied", "Changed")
    assert f"{MANIFEST} was changed" in said["message"]
    member.sh(f"echo one > {MANIFEST}")
    member.declared.reason("m-0", "SettingsAsApplied", "AsApplied")
