"""Machines of a real cluster that fail: what is said of them, what is done, and what is left alone. In this order."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import ENDPOINT_SLICE, NODE, SERVICE, VMI, Resource
from harness.model import Cell
from harness.operator.api.resources import MACHINE
from harness.spec import Spec
from harness.until import Deadline, NotYet, until
from tests.embedded.operator_live.joined import joined
from tests.embedded.operator_live.lived import INTERVAL, Lived, cell_of, changed_spec, deployed, says
from tests.embedded.operator_live.service_pod import manager, nodes_by

log = logging.getLogger(__name__)
PRODUCT = "operator-vm"
PAUSE = Resource("subresources.kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")
REPLACED_SECONDS = 300.0  # from the moment that a worker hangs to the next one's ready node
CUT_SECONDS = 120.0  # two minutes are what a cut-off cluster has to bear; the clock runs once it is seen to be cut off
# The workers are taken from a pool, in which the last one is not before a test says so.
CHANGES = {
    "cluster.yml.j2": [
        (
            '      machines: {names: {{ members | map(attribute="name") | list | tojson }}}\n',
            "      machines: {pool: {selector: {matchLabels: {set: {{ set }}, pool: ready}}}}\n",
        ),
        (
            "  name: guest\nspec:\n",
            "  name: guest\nspec:\n  loadBalancer: {type: Service}\n"
            "  health: {remediation: Replace, afterSeconds: 1, maxUnhealthy: 1}\n",
        ),
    ],
    "machines.yml.j2": [
        (
            "    set: {{ machine.set }}\n",
            "    set: {{ machine.set }}\n    pool: {{ 'spare' if machine.name == 'w-1' else 'ready' }}\n",
        )
    ],
}


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    """Return the packaged matrix, whose operator takes workers from a pool and replaces machines that are ill."""
    return changed_spec(PRODUCT, tmp_path_factory.mktemp("objects") / PRODUCT, CHANGES)


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell with a control plane, a worker and a machine that is held back."""
    return cell_of(spec, PRODUCT, topology="cp1-w2", scenario="scale")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the cluster once it is deployed."""
    with deployed(spec, planned, "health", tmp_path_factory.mktemp("cell")) as found:
        for name in ("cp-0", "w-0"):
            found.wait(name, lambda one: says(one, "Healthy")[0] == "True", "healthy")
        yield found


def nodes(lived: Lived) -> dict[str, str]:
    """Return the uids of the guest's nodes, by name."""
    found = Cluster.from_kubeconfig(lived.life.guests[0].kubeconfig).list(NODE).items
    return {node["metadata"]["name"]: node["metadata"]["uid"] for node in found}


def test_the_service_of_the_api_leads_to_a_server_that_has_its_name(lived: Lived, tmp_path: Path) -> None:
    """By both of its names in the certificate, dialled from the host."""
    service = lived.get("guest-api", SERVICE)
    (part,) = lived.api.list(ENDPOINT_SLICE, lived.namespace, labels="kubernetes.io/service-name=guest-api").items
    addresses = [address for one in part["endpoints"] for address in one["addresses"]]
    assert addresses == [lived.get("cp-0")["status"]["infrastructure"]["address"]]
    assert [port["port"] for port in part["ports"]] == [service["spec"]["ports"][0]["port"]]
    config = yaml.safe_load(lived.life.attempt.files.kubeconfig.read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    cluster["server"] = f"https://{addresses[0]}:{part['ports'][0]['port']}"
    for name in (f"guest-api.{lived.namespace}.svc", f"guest-api.{lived.namespace}"):
        cluster["tls-server-name"] = name
        path = tmp_path / name
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        assert sorted(node["metadata"]["name"] for node in Cluster.from_kubeconfig(path).list(NODE).items) == [
            "cp-0",
            "w-0",
        ]


def test_a_pod_uses_the_kubeconfig_with_the_service_as_the_server(lived: Lived) -> None:
    """Through kube-proxy and the EndpointSlice, once nothing keeps the pods' machine from the control plane."""
    plane = lived.get("cp-0")["status"]["infrastructure"]["address"]
    with joined(manager(lived)["status"]["hostIP"], plane):
        assert nodes_by(lived, f"https://guest-api.{lived.namespace}.svc:6443") == ["cp-0", "w-0"]


def test_a_kubelet_that_stopped_is_said_and_nothing_is_done(lived: Lived) -> None:
    lived.sh("w-0", "systemctl stop kubelet")
    found = lived.wait("w-0", lambda one: says(one, "Remediating") == ("False", "NotConfirmed"), "left alone")
    assert says(found, "Healthy") == ("False", "NodeNotReady")
    assert "kubelet" in str(found["status"]["conditions"])
    lived.sh("w-0", "systemctl start kubelet")
    found = lived.wait("w-0", lambda one: says(one, "Healthy")[0] == "True", "healthy again")
    assert says(found, "Remediating") == ("", "")
    assert not {"Warning Restarting", "Warning Replacing"} & set(lived.events("w-0"))
    assert lived.history() == ["deploy succeeded"]


def said_meanwhile(lived: Lived, seconds: float) -> set[tuple[str, str]]:
    """Return all that is said of the machines, their nodes and their health, within a time."""
    end, seen = Deadline.after(seconds), set[tuple[str, str]]()

    def over() -> bool | NotYet:
        for name in ("cp-0", "w-0"):
            found = lived.get(name)
            seen.add((says(found, "NodeReady")[0], says(found, "Healthy")[0]))
        return end.remaining() <= 0 or NotYet(f"{end.remaining():.0f} s are left")

    deadline = Deadline.after(lived.life.site.timeouts.phase_later)
    until(over, deadline=deadline, what=f"{seconds:.0f} s without the API", interval=INTERVAL)
    return seen


def test_a_cluster_that_is_cut_off_is_unknown_and_nothing_is_done(lived: Lived) -> None:
    before = nodes(lived)
    rule = "ip saddr $address tcp dport 6443 reject with tcp reset"
    lived.sh(
        "cp-0",
        "address=${SSH_CONNECTION%% *}; nft add table ip cut; "
        'nft "add chain ip cut input { type filter hook input priority -300; }"; '
        f'nft "add rule ip cut input {rule}"',
    )
    try:
        for name in ("cp-0", "w-0"):
            lived.wait(name, lambda one: says(one, "NodeReady") == ("Unknown", "ApiUnreachable"), "unknown")
            lived.wait(name, lambda one: says(one, "Healthy") == ("Unknown", "NodeUnknown"), "of unknown health")
        assert said_meanwhile(lived, CUT_SECONDS) == {("Unknown", "Unknown")}
    finally:
        lived.sh("cp-0", "nft delete table ip cut")
    for name in ("cp-0", "w-0"):
        lived.wait(name, lambda one: says(one, "Healthy")[0] == "True", "healthy again")
        assert not {"Warning Restarting", "Warning Replacing"} & set(lived.events(name))
    assert (nodes(lived), lived.history()) == (before, ["deploy succeeded"])


def freeze(lived: Lived, name: str) -> str:
    """Have a machine stand still, as one does whose host is in trouble; return the UID of its instance."""
    lived.api.request("PUT", PAUSE.path(lived.namespace, name, "pause"), body={})
    return str(lived.get(name, VMI)["metadata"]["uid"])


def test_a_machine_that_is_frozen_is_restarted_and_comes_back(lived: Lived) -> None:
    before = nodes(lived)
    lived.edit({"health": {"remediation": "Restart"}})
    instance = freeze(lived, "w-0")

    def back() -> bool | NotYet:
        uid = dig(lived.api.get(VMI, "w-0", lived.namespace), "metadata", "uid")
        return uid not in (None, instance) or NotYet(f"its instance is {uid}: {lived.get('w-0')['status']}")

    deadline = Deadline.after(lived.life.site.timeouts.phase_later)
    until(back, deadline=deadline, what="another instance of w-0", interval=INTERVAL)
    lived.wait("w-0", lambda one: says(one, "Healthy")[0] == "True", "healthy again")
    assert "Warning Hung" in lived.events("w-0")
    assert "Warning Restarting" in lived.events("guest")
    assert (nodes(lived), lived.history()) == (before, ["deploy succeeded"])


def test_a_worker_that_a_restart_does_not_help_is_replaced_by_one_of_the_pool(lived: Lived) -> None:
    before = nodes(lived)
    lived.api.merge(MACHINE, "w-1", {"metadata": {"labels": {"pool": "ready"}}}, lived.namespace)
    lived.wait("w-1", lambda one: dig(one, "status", "phase") == "Idle", "idle")
    lived.sh("w-0", "systemctl disable kubelet ssh")
    lived.edit({"health": {"remediation": "Replace"}})
    began = time.monotonic()
    freeze(lived, "w-0")
    lived.wait("w-1", lambda one: says(one, "Healthy")[0] == "True", "a healthy node")
    took = time.monotonic() - began
    log.info("replaced after %.0f s: %s", took, ", ".join(lived.events("w-0")))
    assert took <= REPLACED_SECONDS
    lived.gone("w-0")
    now = nodes(lived)
    assert sorted(now) == ["cp-0", "w-1"]
    assert now["cp-0"] == before["cp-0"]
    assert "Warning Replacing" in lived.events("guest")
    assert lived.history() == ["deploy succeeded", "remove-node succeeded", "scale succeeded"]
