"""Remedies on a real API server, which stands for the guest's, too: kubelets and machines are what a test says."""

from __future__ import annotations

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.objects import condition, dig, is_condition, now
from harness.kube.resources import NODE, VM, VMI
from harness.operator.api.conditions import with_conditions
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE, REPLACE_ANNOTATION
from harness.operator.context import OperatorOptions
from harness.operator.controllers import remediation
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.guests import node
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.recorded import RecordedCluster
from tests.embedded.operator.relay import Relay
from tests.unit.operator.api.objects import wanted_set

pytestmark = pytest.mark.usefixtures("logins", "prompt")
CONTROLLERS = ("machine", "machineset", "claims", "nodehealth", "remediation")
DIRECT = OperatorOptions(access="Direct")  # the guest's API is not a machine's
SOON = {"remediation": "Replace", "afterSeconds": 1, "maxUnhealthy": 9}


def deploy(declared: Declared, manager: StartManager, nodes: dict[str, str], *planes: str) -> None:
    """Let Machines be deployed in cluster one, on nodes of these names; by default m-2 is its control plane."""
    manager(*CONTROLLERS, options=DIRECT)
    for name, host in nodes.items():
        declared.machine(name, hostname=host, through={"virtualMachineInstance": name})
        node(declared.api, host, "True")
    planes = planes or ("m-2",)
    workers = [name for name in nodes if name not in planes]
    sets = [wanted_set("cp", "control-plane", replicas=len(planes), names=list(planes))]
    sets += [wanted_set("w", "worker", replicas=len(workers), names=workers)] if workers else []
    declared.deployment("one", *sets, health=SOON)
    for name in nodes:
        declared.phase(name, "Claimed")
    declared.worked("one", "deploy", *nodes)
    for name, host in nodes.items():
        well(declared, name, host)


def well(declared: Declared, name: str, host: str) -> Json:
    """Return a Machine once it is healthy; its Node stays ready, whatever the node controller thinks of its silence."""

    def healthy(found: Json) -> bool:
        said = condition(found, "Healthy") or {}
        if said.get("status") == "False":
            node(declared.api, host, "True")
        return said.get("status") == "True"

    return declared.wait(name, healthy, "healthy")


def says(declared: Declared, name: str, kind: str, status: str) -> None:
    """Let those who ask the infrastructure, or log in, say something of a machine."""
    said = {"type": kind, "status": status, "reason": "Played", "message": "played", "lastTransitionTime": now()}

    def written() -> bool | NotYet:
        found = declared.get(name)
        conditions = with_conditions(dig(found, "status", "conditions") or [], said)
        meta = {"resourceVersion": found["metadata"]["resourceVersion"]}
        try:
            patch = {"metadata": meta, "status": {"conditions": conditions}}
            declared.api.merge(MACHINE, name, patch, declared.namespace, subresource="status")
        except Exception as failure:  # noqa: BLE001 - another writer came first
            return NotYet(str(failure))
        return True

    until(written, deadline=Deadline.after(WAIT_SECONDS), what=f"{kind} of {name}", interval=INTERVAL)


def remediating(found: Json) -> str:
    return str((condition(found, "Remediating") or {}).get("reason"))


def replaced(found: Json) -> str | None:
    why: str | None = (found["metadata"].get("annotations") or {}).get(REPLACE_ANNOTATION)
    return why


@pytest.fixture
def hosts(host: str, api: Cluster) -> dict[str, str]:
    """Return names of three Machines and of their nodes, which are gone after the test."""
    return {"m-0": host, "m-1": f"{host}-1", "m-2": f"{host}-2"}


@pytest.fixture(autouse=True)
def _no_nodes_left(hosts: dict[str, str], api: Cluster) -> object:
    yield
    for name in hosts.values():
        api.delete(NODE, name)


def test_a_kubelet_that_stopped_is_said_and_the_machine_stays(
    guest: Declared, manager: StartManager, hosts: dict[str, str]
) -> None:
    deploy(guest, manager, hosts)
    says(guest, "m-1", "Answering", "True")
    says(guest, "m-0", "Answering", "True")
    node(guest.api, hosts["m-0"], "Unknown")  # as the guest's node controller says when a kubelet says nothing more
    found = guest.wait("m-0", lambda one: remediating(one) == "NotConfirmed", "left as it is")
    healthy = condition(found, "Healthy") or {}
    assert (healthy["status"], healthy["reason"]) == ("False", "NodeNotReady")
    guest.said("m-0", "Warning NodeNotReady")
    assert replaced(found) is None
    node(guest.api, hosts["m-0"], "True")
    assert remediating(well(guest, "m-0", hosts["m-0"])) == "None"


def test_a_machine_that_hangs_is_restarted_and_then_replaced(
    guest: Declared, manager: StartManager, hosts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remediation, "AGAIN_SECONDS", 0.05)
    before = instance(guest, "m-0")
    deploy(guest, manager, hosts)
    says(guest, "m-1", "Answering", "True")
    node(guest.api, hosts["m-0"], "Unknown")
    says(guest, "m-0", "Answering", "False")
    guest.said("m-0", "Warning Restarting")

    def another() -> bool | NotYet:
        found = guest.api.get(VMI, "m-0", guest.namespace)
        uid = dig(found, "metadata", "uid")
        return uid not in (None, before) or NotYet(f"its UID is {uid}, its status {dig(found, 'status')}")

    until(another, deadline=Deadline.after(WAIT_SECONDS), what="another instance", interval=INTERVAL)
    found = guest.wait("m-0", lambda one: bool(replaced(one)), "to be replaced")
    assert "its node is not ready since" in (replaced(found) or "")
    assert "it answers no login: played" in (replaced(found) or "")
    guest.said("m-0", "Warning Replacing")
    guest.said("one", "Warning Replacing")
    assert "this is not a Kubernetes API" not in str(guest.api.events_of(guest.namespace, "m-0"))
    guest.wait("m-0", lambda one: remediating(one) == "Replacing", "said to be replaced")
    guest.api.delete(CLUSTER_DEPLOYMENT, "one", guest.namespace)
    guest.wait("m-0", lambda one: replaced(one) is None and condition(one, "Healthy") is None, "as new")


def instance(declared: Declared, name: str) -> str:
    """Make a virtual machine that never starts; return the UID of its instance."""
    disks = {"devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]}}
    domain = {**disks, "cpu": {"cores": 1}, "memory": {"guest": "64Mi"}}
    volumes = [{"name": "root", "persistentVolumeClaim": {"claimName": "none"}}]
    template = {"spec": {"domain": domain, "volumes": volumes, "terminationGracePeriodSeconds": 0}}
    body = VM.manifest(name, declared.namespace, labels={}, spec={"runStrategy": "Always", "template": template})
    declared.api.create(VM, body)

    def made() -> str | NotYet:
        found = declared.api.get(VMI, name, declared.namespace)
        return str(found["metadata"]["uid"]) if found is not None else NotYet("there is none")

    return until(made, deadline=Deadline.after(WAIT_SECONDS), what=f"an instance of {name}", interval=INTERVAL)


def test_while_the_guest_is_cut_off_nothing_is_done(
    guest: Declared, manager: StartManager, hosts: dict[str, str], relay: Relay
) -> None:
    deploy(guest, manager, hosts)
    says(guest, "m-1", "Answering", "True")
    relay.cut()
    for name in ("m-0", "m-2"):
        says(guest, name, "Answering", "False")
        says(guest, name, "InfrastructureReady", "False")
    for name in hosts:
        # At first its node says that it is well, and then nothing says anything of it.
        found = guest.wait(name, lambda one: is_condition(one, "Healthy", "Unknown", "NodeUnknown"), "unknown")
        assert (remediating(found), replaced(found)) == ("None", None)
    for name in ("m-0", "m-2"):
        says(guest, name, "Answering", "True")
        says(guest, name, "InfrastructureReady", "True")
    relay.mend()
    well(guest, "m-0", hosts["m-0"])
    assert replaced(guest.get("m-0")) is None


def test_two_of_three_control_planes_that_are_gone_stay(
    guest: Declared, manager: StartManager, hosts: dict[str, str]
) -> None:
    deploy(guest, manager, hosts, *hosts)
    for name in ("m-0", "m-1"):
        says(guest, name, "InfrastructureReady", "False")
    for name in ("m-0", "m-1"):
        node(guest.api, hosts[name], "Unknown")
    for name in ("m-0", "m-1"):
        found = guest.wait(name, lambda one: remediating(one) in {"EtcdMajority", "LastControlPlane"}, "held")
        assert replaced(found) is None


def test_a_manager_that_was_killed_before_the_restart_restarts(
    guest: Declared, manager: StartManager, hosts: dict[str, str]
) -> None:
    before = instance(guest, "m-0")
    deploy(guest, manager, hosts)
    node(guest.api, hosts["m-0"], "Unknown")
    guest.reason("m-0", "Remediating", "NotConfirmed")
    remediation = {"step": "Restart", "at": now(), "instance": before}
    body = {"status": {"remediation": remediation}}
    guest.api.merge(MACHINE, "m-0", body, guest.namespace, subresource="status")
    says(guest, "m-1", "Answering", "True")
    says(guest, "m-0", "Answering", "False")

    def another() -> bool | NotYet:
        uid = dig(guest.api.get(VMI, "m-0", guest.namespace), "metadata", "uid")
        return uid not in (None, before) or NotYet(f"its UID is {uid}")

    until(another, deadline=Deadline.after(WAIT_SECONDS), what="another instance", interval=INTERVAL)


def test_an_idle_manager_writes_nothing(declared: Declared, manager: StartManager, client: RecordedCluster) -> None:
    manager("machine", "machineset", "claims", "remediation")
    declared.machine("m-0")
    declared.deployment("one", wanted_set("cp", "control-plane"), health=SOON)
    declared.phase("m-0", "Claimed")
    declared.worked("one", "deploy", "m-0")
    says(declared, "m-0", "NodeReady", "False")
    declared.reason("m-0", "Remediating", "NotConfirmed")
    (controller,) = manager("remediation", client=client).controllers  # begins with a look at everything

    def idle() -> bool | NotYet:
        return (controller.reconciles > 0 and not len(controller.queue)) or NotYet("it is at work")

    until(idle, deadline=Deadline.after(WAIT_SECONDS), what="an idle manager", interval=INTERVAL)
    assert client.writes() == []
