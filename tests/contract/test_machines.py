"""Virtual machines: their whole life as recorded, no room and room again, deletion in any phase, isolation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.embedded.admission.instance_spec import quantity
from harness.kube.client import Cluster
from harness.kube.resources import DATA_VOLUME, NODE, POD, PVC, SECRET, VM, VMI
from harness.until import NotYet, until
from tests.contract.images import Site
from tests.contract.limits import within
from tests.contract.machines import CLONE_SECONDS, FINAL, Machines
from tests.contract.storage import Storage
from tests.contract.streams import Watcher
from tests.contract.transitions import Json, pod_facets, steps, vmi_facets
from tests.contract.volumes import datavolume, http, wait_gone
from tests.contract.walks import compare_vm

pytestmark = pytest.mark.machines
HOSTNAME = "kubernetes.io/hostname"


def test_a_machine_walks_as_recorded(machines: Machines, watcher: Watcher) -> None:
    machines.disk("cp-0")
    machines.create("cp-0")
    machines.wait_ready("cp-0")
    instance = machines.cluster.get(VMI, "cp-0", machines.namespace)
    launcher = machines.launcher("cp-0")
    machines.delete("cp-0")

    assert instance is not None
    interface = instance["status"]["interfaces"][0]
    assert interface["ipAddress"] == launcher["status"]["podIP"]
    assert instance["status"]["nodeName"] == launcher["spec"]["nodeName"]
    assert launcher["metadata"]["labels"]["kubevirt.io/created-by"] == instance["metadata"]["uid"]
    assert launcher["metadata"]["labels"]["vmatrix.dev/cell"] == "contract"
    assert compare_vm(watcher.taken(), "cp-0") == []


def test_a_guest_is_what_its_manifest_says(machines: Machines) -> None:
    """The numbers of CPUs and bytes of memory are left out: guests that share the host's kernel see the host's."""
    machines.disk("named")
    machines.create("named")
    machines.wait_ready("named")
    guest = machines.login("named")

    assert machines.run(guest, "hostname").stdout.strip() == "named"
    assert guest.address in machines.run(guest, "hostname -I").stdout.split()
    assert machines.run(guest, "sudo id -u").stdout.strip() == "0"
    disk_mib = int(machines.run(guest, "df -m --output=size / | tail -1").stdout)
    assert disk_mib > 8 * 1024


def test_a_machine_is_switched_on_and_off_by_its_run_strategy(machines: Machines, admin: Cluster) -> None:
    cluster, namespace = machines.cluster, machines.namespace
    machines.disk("switched")
    machines.create("switched", lambda vm: vm["spec"].update(runStrategy="Halted"))
    machines.wait_word("switched", "Stopped")
    assert cluster.get(VMI, "switched", namespace) is None

    admin.merge(VM, "switched", {"spec": {"runStrategy": "Always"}}, namespace)
    machines.wait_ready("switched")
    admin.merge(VM, "switched", {"spec": {"runStrategy": "Halted"}}, namespace)

    wait_gone(cluster, VMI, namespace, "switched")
    machines.wait_word("switched", "Stopped")
    assert machines.launchers() == []


def test_a_machine_makes_its_disk_from_a_template_and_takes_it_away(machines: Machines) -> None:
    cluster, namespace = machines.cluster, machines.namespace
    objects = machines.objects("templated")
    disk = objects["DataVolume"]
    template = {"metadata": {"name": "templated"}, "spec": disk["spec"]}
    cluster.create(SECRET, objects["Secret"])

    machines.create("templated", lambda vm: vm["spec"].update(dataVolumeTemplates=[template]))
    machines.wait_ready("templated")
    made = cluster.get(DATA_VOLUME, "templated", namespace)
    told = cluster.events_of(namespace, "templated")
    machines.delete("templated")

    assert made is not None
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("VirtualMachine", "templated")
    assert any("SuccessfulDataVolumeCreate" in line for line in told)
    wait_gone(cluster, DATA_VOLUME, namespace, "templated")
    wait_gone(cluster, PVC, namespace, "templated")


def test_a_machine_that_is_given_time_shuts_down(machines: Machines, watcher: Watcher) -> None:
    def patient(vm: Json) -> None:
        vm["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 120

    machines.disk("patient")
    machines.create("patient", patient)
    machines.wait_ready("patient")
    machines.login("patient")  # from then on it hears that it is to shut down
    machines.delete("patient", seconds=120)

    taken = watcher.taken()
    phases = [step.value for step in steps(taken.of("vmi", "patient"), vmi_facets) if step.facet == "phase"]
    assert phases == ["Pending", "Scheduling", "Scheduled", "Running", "Succeeded"]
    ends = [
        step.value for step in steps(taken.of("pod", "virt-launcher-patient-*"), pod_facets) if step.facet == "phase"
    ]
    assert ends[-1] == "Succeeded"
    said = [event["reason"] for event in taken.about("VirtualMachineInstance", "/patient")]
    assert {"ShuttingDown", "Stopped"} <= set(said)


def test_a_machine_is_the_first_consumer_of_its_disk(machines: Machines, storage: Storage) -> None:
    machines = replace(machines, storage=storage)
    machines.disk_of_its_own("consumes")
    machines.create("consumes")

    machines.wait_status("consumes", lambda s: bool(s.get("ready")), "to be ready", seconds=CLONE_SECONDS)

    disk = machines.cluster.get(DATA_VOLUME, "consumes", machines.namespace)
    assert disk is not None
    assert disk["status"]["phase"] == "Succeeded"
    claim = next(c for c in machines.cluster.list(PVC, machines.namespace).items if c["metadata"]["name"] == "consumes")
    assert claim["spec"]["storageClassName"] == storage.name


def test_a_machine_that_powers_off_is_seen_to_have_ended(machines: Machines) -> None:
    machines.disk("leaves")
    machines.create("leaves")
    machines.wait_ready("leaves")
    guest = machines.login("leaves")
    machines.run(guest, "sudo systemctl poweroff")

    def ended() -> str | NotYet:
        instance = machines.cluster.get(VMI, "leaves", machines.namespace) or {}
        phase: str = (instance.get("status") or {}).get("phase", "")
        return phase if phase in FINAL else NotYet(phase or "no instance")

    phase = until(ended, deadline=within(60), what="the instance to end", interval=0.1)
    until(lambda: _stopped(machines.status("leaves")), deadline=within(20), what="the machine to be Stopped")

    def unready() -> bool | NotYet:
        """Being stopped and being ready are two observations: one may follow the other."""
        return NotYet("still ready") if machines.status("leaves").get("ready") else True

    until(unready, deadline=within(20), what="the machine to be not ready")
    assert phase == "Succeeded"


def _stopped(status: Json) -> Json | NotYet:
    word = status.get("printableStatus")
    return status if word == "Stopped" else NotYet(str(word))


def _hog(cluster: Cluster, namespace: str, share: float) -> tuple[Json, int]:
    """Return a pod that takes a share of a node's memory, pinned to it, and that share in MiB."""
    node = cluster.list(NODE, labels="kubevirt.io/schedulable=true").items[0]
    share_mib = int(float(quantity(node["status"]["allocatable"]["memory"])) * share) // 2**20
    container = {
        "name": "hog",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"memory": f"{share_mib}Mi"}},
    }
    spec = {
        "containers": [container],
        "nodeSelector": {HOSTNAME: node["metadata"]["labels"][HOSTNAME]},
        "tolerations": [{"operator": "Exists"}],  # the node may be for machines only
        "terminationGracePeriodSeconds": 0,
    }
    meta = {"name": "hog", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, share_mib


def test_a_machine_without_room_says_so_and_starts_when_there_is(machines: Machines, admin: Cluster) -> None:
    namespace = machines.namespace
    pod, share_mib = _hog(admin, namespace, 0.55)
    machines.disk("waits")
    admin.create(POD, pod)

    def placed() -> str | NotYet:
        found = admin.get(POD, "hog", namespace)
        assert found is not None
        return found["spec"].get("nodeName") or NotYet("it has no node")

    until(placed, deadline=within(20), what="the hog to be on its node", interval=0.1)

    def greedy(vm: Json) -> None:
        spec = vm["spec"]["template"]["spec"]
        spec["domain"]["memory"]["guest"] = f"{share_mib}Mi"
        spec["nodeSelector"] = pod["spec"]["nodeSelector"]

    machines.create("waits", greedy)
    stuck = machines.wait_word("waits", "ErrorUnschedulable")
    admin.delete(POD, "hog", namespace, grace=0)
    ready = machines.wait_ready("waits")

    scheduled = next(c for c in stuck["conditions"] if c["type"] == "PodScheduled")
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
    assert "Insufficient memory" in scheduled["message"]
    assert ready["printableStatus"] == "Running"


def test_a_machine_waits_for_its_disk_and_can_be_deleted_then(machines: Machines, site: Site) -> None:
    body = datavolume(machines.namespace, "early", http(site.url("slow.img")), storage=machines.storage)
    machines.cluster.create(DATA_VOLUME, body)
    machines.create("early")

    machines.wait_word("early", "Provisioning")
    machines.delete("early")


@pytest.mark.parametrize("word", ["ErrorUnschedulable", "Starting", "Running"])
def test_a_machine_is_deleted_in_any_phase(machines: Machines, word: str) -> None:
    def huge(vm: Json) -> None:
        if word == "ErrorUnschedulable":
            vm["spec"]["template"]["spec"]["domain"]["memory"]["guest"] = "100Ti"

    machines.disk("brief")
    machines.create("brief", huge)
    machines.wait_word("brief", word)

    machines.delete("brief")
