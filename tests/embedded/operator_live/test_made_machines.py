"""Machines that the operator makes, on the embedded KubeVirt: they come up, and whatever is in the way is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness import providers
from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import condition, dig
from harness.kube.resources import DATA_VOLUME, PVC, RESOURCE_QUOTA, SECRET, VM, VMI, Resource
from harness.machines.kubevirt.manifests import GoldenImage
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.providers.embedded import EmbeddedProvider
from harness.spec.settings import Settings
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.made import made_set
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.recorded import Asked, RecordedCluster

ALL = ("machine", "machineset", "claims", "infrastructure")
NAME, BOTH = "one-w-1", ("control-plane", "worker")
MADE_OF = (DATA_VOLUME, PVC, VM, VMI, SECRET, MACHINE_SET, MACHINE)


@pytest.fixture(scope="module")
def image(infra: EmbeddedProvider) -> GoldenImage:
    """Return a disk image that is served, and that nobody has imported."""
    return providers.golden_image(Settings(), "debian-13", infra.mirror(), progress=lambda _line: None)


@pytest.fixture
def declared(api: Cluster, namespace: str) -> Declared:
    """Return the objects of the test's namespace."""
    return Declared(api, namespace)


@pytest.fixture
def wanted(declared: Declared, image: GoldenImage) -> Callable[..., Json]:
    """Return what declares a cluster of one machine that is made, and fields of it that differ."""

    def declare(**more: Any) -> Json:
        source = {"url": image.url, "checksum": image.checksum}
        return declared.deployment("one", made_set(1, "w", *BOTH, **{"image": source, **more}))

    return declare


def left(declared: Declared) -> list[str]:
    """Return what is left in the namespace of what machines are made of."""
    found = [(kind, one) for kind in MADE_OF for one in declared.api.list(kind, declared.namespace).items]
    return [f"{kind.kind} {one['metadata']['name']}" for kind, one in found]


def empty(declared: Declared) -> None:
    """Wait until nothing is left."""
    deadline = Deadline.after(WAIT_SECONDS)
    until(lambda: NotYet(f"there are {left(declared)}") if left(declared) else True, deadline=deadline, what="no trace")


def appears(declared: Declared, name: str, kind: Resource = MACHINE) -> None:
    """Wait until there is an object that a controller makes."""

    def probe() -> bool | NotYet:
        return declared.api.get(kind, name, declared.namespace) is not None or NotYet(f"no {kind.kind} {name}")

    until(probe, deadline=Deadline.after(WAIT_SECONDS), what=f"{kind.kind} {name}", interval=INTERVAL)


def phase(declared: Declared, name: str, wanted: str) -> Json:
    """Return a Machine once it is there and in a phase."""
    appears(declared, name)
    return declared.phase(name, wanted)


def reason(declared: Declared, name: str, wanted: str) -> str:
    """Return what is said of a machine's infrastructure once it has a reason."""
    appears(declared, name)
    return str(declared.reason(name, "InfrastructureReady", wanted)["message"])


def test_a_machine_is_made_and_replaced_and_goes_without_a_trace(
    declared: Declared, manager: StartManager, wanted: Callable[..., Json]
) -> None:
    manager(*ALL)
    wanted()
    found = phase(declared, NAME, "Provisioned")["status"]
    assert found["facts"]["os"].startswith("Debian GNU/Linux 13")
    seen, vmi = found["infrastructure"], declared.get(NAME, VMI)
    assert (seen["instance"], seen["node"]) == (vmi["metadata"]["uid"], vmi["status"]["nodeName"])
    assert seen["disk"] == declared.get(NAME, PVC)["metadata"]["uid"]
    assert seen["address"]

    declared.api.delete(VMI, NAME, declared.namespace)  # as a drain does: it comes back with its disk
    declared.wait(NAME, lambda one: stands(one) in {"Starting", "AddressChanged"}, "restarted")
    declared.wait(NAME, lambda one: stands(one) in {"Running", "AddressChanged"}, "there again")
    assert declared.get(NAME)["status"]["infrastructure"]["disk"] == seen["disk"]

    declared.api.delete(VM, NAME, declared.namespace)
    declared.gone(NAME)
    declared.said(NAME, "Warning Lost: machine one-w-1: its VirtualMachine and its instance are gone")
    phase(declared, "one-w-2", "Provisioned")
    declared.api.delete(CLUSTER_DEPLOYMENT, "one", declared.namespace)
    empty(declared)


def stands(machine: Json) -> str:
    return str((condition(machine, "InfrastructureReady") or {}).get("reason"))


def test_an_image_with_another_checksum_is_told_with_the_field_and_a_better_wish_heals(
    declared: Declared, manager: StartManager, image: GoldenImage, wanted: Callable[..., Json]
) -> None:
    manager(*ALL)
    wanted(image={"url": image.url, "checksum": "sha256:" + "0" * 64})
    said = reason(declared, NAME, "ImageImportFailed")
    assert "checksum" in said
    assert "the fields of `kubevirt.image`" in said
    assert "kubectl delete -n" in said
    right = made_set(1, "w", *BOTH, image={"url": image.url, "checksum": image.checksum})
    declared.api.merge(MACHINE_SET, "one-w", {"spec": right}, declared.namespace)
    phase(declared, "one-w-2", "Provisioned")


def test_a_machine_that_no_node_fits_says_so(
    declared: Declared, manager: StartManager, wanted: Callable[..., Json]
) -> None:
    manager(*ALL)
    wanted(memory="9000000Mi")
    said = reason(declared, NAME, "NoNodeFits")
    assert "no room for machine" in said
    assert "`kubevirt.memory`" in said
    assert phase(declared, NAME, "Provisioning")


def test_a_quota_and_a_name_that_is_taken_are_told(
    declared: Declared, manager: StartManager, wanted: Callable[..., Json]
) -> None:
    api, namespace = declared.api, declared.namespace
    hard = {"hard": {"count/datavolumes.cdi.kubevirt.io": "0"}}
    api.create(RESOURCE_QUOTA, RESOURCE_QUOTA.manifest("none", namespace, labels={}, spec=hard))
    until(
        lambda: dig(declared.get("none", RESOURCE_QUOTA), "status", "hard") or NotYet("not counted"),
        deadline=Deadline.after(WAIT_SECONDS),
        what="the quota to count",
        interval=INTERVAL,
    )
    manager(*ALL)
    wanted()
    assert "exceeded quota: none" in reason(declared, NAME, "QuotaExceeded")
    taken = SECRET.manifest(f"{NAME}-cloud-init", namespace, labels={}, type="Opaque")
    api.create(SECRET, taken)
    api.delete(RESOURCE_QUOTA, "none", namespace)
    assert f"Secret {NAME}-cloud-init is there" in reason(declared, NAME, "NameTaken")
    api.delete(SECRET, f"{NAME}-cloud-init", namespace)
    phase(declared, NAME, "Provisioned")


def test_an_api_that_does_not_answer_is_unknown_and_nothing_is_lost(
    infra: EmbeddedProvider, declared: Declared, manager: StartManager
) -> None:
    client = RecordedCluster.open(infra.kubeconfig())

    def refuse(asked: Asked) -> None:
        if "kubevirt.io" in asked.path:
            raise ApiFailure(404, "NotFound", "the server could not find the requested resource", [], request="GET")

    client.before = refuse
    manager(*ALL, client=client)
    declared.machine("m-0", through={"virtualMachineInstance": "m-0"})
    said = reason(declared, "m-0", "KubeVirtUnreachable")
    assert "could not find the requested resource" in said
    assert (condition(declared.get("m-0"), "InfrastructureReady") or {})["status"] == "Unknown"
    client.before = lambda _: None
    reason(declared, "m-0", "Stopped")
